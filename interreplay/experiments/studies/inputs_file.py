"""The original work's inputs files: a line of flags, then a line per run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from interreplay.errors import UsageError
from interreplay.experiments.flags.reading import Flag
from interreplay.experiments.studies.grid import SettingsResolver, make_run
from interreplay.experiments.studies.study import PlannedRun

FIELDS = ("seed", "env", "custom_replay_buffer", "agent_name", "replay_ratio", "local_dir", "trainer")
# What the fields are called here; agent_name becomes the label, local_dir the folder of the study.
FLAGS = {"replay_ratio": "updates_per_step"}


def read(
    path: Path, given: Callable[[Sequence[str]], dict[str, Any]], resolver: SettingsResolver
) -> tuple[list[PlannedRun], list[str]]:
    """Return the runs of an inputs file and the folders that it names.

    Args:
        path: The file.
        given: Reads a command line of ``custom_training``.
        resolver: What its flags mean.

    Raises:
        UsageError: It cannot be read, or names something unknown.
    """
    try:
        first, *lines = path.read_text().splitlines() or [""]
    except OSError as error:
        raise UsageError(f"--inputs {path} cannot be read: {error.strerror}") from None
    common = _flags(given, resolver, _words(first, f"{path}, line 1"), f"{path}, line 1")
    runs, folders = [], []
    for number, line in enumerate(lines, 2):
        where = f"{path}, line {number}"
        words = _words(line, where)
        if not words:
            continue
        if len(words) != len(FIELDS):
            raise UsageError(f"{where} has {len(words)} words; expected {len(FIELDS)}: {' '.join(FIELDS)}")
        fields = dict(zip(FIELDS, words, strict=True))
        folders.append(fields.pop("local_dir"))
        label = fields.pop("agent_name")
        named = [f"--{FLAGS.get(name, name)}={value}" for name, value in fields.items()]
        try:
            runs.append(make_run(common | _flags(given, resolver, named, where), label, resolver))
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from None
    return runs, folders


def _words(line: str, where: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None


def _flags(
    given: Callable[[Sequence[str]], dict[str, Any]], resolver: SettingsResolver, words: Sequence[str], where: str
) -> dict[str, Any]:
    """Return the flags in a line, but those about one start of the program and those that a study states itself."""
    try:
        flags = given(words)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    flags = {name: list(value) if isinstance(value, tuple) else value for name, value in flags.items()}
    arguments = dict(flags.pop("buffer_arg", ()))
    meant = {name: value for name, value in flags.items() if not _said_by_study(resolver.flags[name])}
    return meant | ({"buffer_args": arguments} if arguments else {})


def _said_by_study(flag: Flag) -> bool:
    return flag.in_study is not None and flag.scope in ("execution", "invocation")
