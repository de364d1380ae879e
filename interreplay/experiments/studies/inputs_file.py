"""Inputs files of the original work: a line of flags, then one line per run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from interreplay.errors import UsageError
from interreplay.experiments.flags.original_flags import BLENDS, BUFFER_ARGUMENTS, GAUSSIAN_PROCESS_NAMES, METHODS
from interreplay.experiments.flags.run_flags import FLAGS
from interreplay.experiments.flags.values import without
from interreplay.experiments.studies.grid import make_run
from interreplay.experiments.studies.study import PlannedRun
from interreplay.runs.resume import plain

FIELDS = ("seed", "env", "custom_replay_buffer", "agent_name", "replay_ratio", "local_dir", "trainer")
RENAMED = {"replay_ratio": "updates_per_step"}
"""Flags of fields with another name; agent_name becomes the label, local_dir the folder of the study."""
OF_CUSTOM = {*METHODS, *BLENDS, *BUFFER_ARGUMENTS, *GAUSSIAN_PROCESS_NAMES, "interp_prio_update"}
"""Flags of the first line that do not apply to runs with custom_replay_buffer False, as in the original work."""


def read(path: Path, given: Callable[[Sequence[str]], dict[str, Any]]) -> tuple[list[PlannedRun], list[str]]:
    """Return the runs of an inputs file and the folders that it names; `given` parses a line of flags."""
    try:
        first, *lines = path.read_text().splitlines() or [""]
    except OSError as error:
        raise UsageError(f"--inputs {path} cannot be read: {error.strerror}") from None
    runs = []
    folders = []
    where = f"{path}, line 1"
    try:
        common = _flags(given(shlex.split(first)))
        for number, line in enumerate(lines, 2):
            where = f"{path}, line {number}"
            words = shlex.split(line)
            if not words:
                continue
            if len(words) != len(FIELDS):
                raise UsageError(f"{len(words)} words; expected {len(FIELDS)}: {' '.join(FIELDS)}")
            fields = dict(zip(FIELDS, words, strict=True))
            folders.append(fields.pop("local_dir"))
            label = fields.pop("agent_name")
            named = [f"--{RENAMED.get(name, name)}={value}" for name, value in fields.items()]
            own = _flags(given(named))
            shared = common
            if not own["custom_replay_buffer"]:
                shared = without(common, OF_CUSTOM)
            runs.append(make_run(shared | own, label))
    except ValueError as error:  # raised by shlex; also every UsageError
        raise UsageError(f"{where}: {error}") from None
    return runs, folders


def _flags(given: dict[str, Any]) -> dict[str, Any]:
    """Return given flags in the form of a study, without flags about one start of the program."""
    flags: dict[str, Any] = {}
    for name, value in given.items():
        if name == "buffer_arg":
            flags["buffer_args"] = dict(value)
            continue
        flag = FLAGS[name]
        if flag.in_study is None or flag.scope not in ("execution", "invocation"):
            flags[name] = plain(value)
    return flags
