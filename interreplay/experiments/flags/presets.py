"""Presets: settings by environment and algorithm, in the data files of `interreplay/presets`.

A file contains ``about``. Optional keys: ``automatic`` (used for its environments if no preset is named), ``trainers``
(the algorithms it supports), ``needs`` (flags that must also be given), ``buffer``, ``buffer_args``, ``everywhere`` and
``environments``. The last two hold flags and values; flags under an algorithm's name apply to that algorithm. Names of
environments have no version; ``*`` matches anything.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from interreplay.errors import UsageError, accepted_names
from interreplay.experiments.flags.values import written
from interreplay.learning.algorithms_table import ALGORITHMS, built_in, is_algorithm

FOLDER = Path(__file__).resolve().parents[2] / "presets"
NONE = "none"
KEYS = ("about", "automatic", "trainers", "needs", "buffer", "buffer_args", "everywhere", "environments")


@dataclass(frozen=True)
class Preset:
    """The contents of a file; the module documents the keys."""

    name: str
    about: str = ""
    automatic: bool = False
    trainers: tuple[str, ...] = tuple(name for name, row in ALGORITHMS.items() if not row.unrolls)
    needs: tuple[str, ...] = ()
    buffer: str | None = None
    buffer_args: Mapping[str, Any] = field(default_factory=dict)
    everywhere: Mapping[str, Any] = field(default_factory=dict)
    environments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def knows(self, env: str) -> bool:
        """Return whether it has settings for this environment in particular."""
        return any(fnmatchcase(bare(env), pattern) for pattern in self.environments)

    def settings(self, trainer: str, env: str) -> dict[str, Any]:
        """Return flags and values for an algorithm on an environment; more specific ones win.

        Raises:
            UsageError: The preset does not support this algorithm.
        """
        trainer = built_in(trainer)
        if trainer not in self.trainers:
            raise UsageError(f"preset {self.name} is for {' and '.join(self.trainers)}, not for {trainer}")
        found: dict[str, Any] = {}
        matching = [given for pattern, given in self.environments.items() if fnmatchcase(bare(env), pattern)]
        for given in (self.everywhere, *matching):
            found |= {flag: value for flag, value in given.items() if flag not in ALGORITHMS}
            found |= given.get(trainer, {})
        return found


DEFAULTS = Preset(NONE, about="the defaults of --help for every environment", trainers=tuple(ALGORITHMS))


def bare(env: str) -> str:
    """Return an environment's name without module and version."""
    return env.rpartition(":")[2].rsplit("-v", 1)[0]


def names() -> list[str]:
    """Return the names of the package's presets."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str) -> Preset:
    """Return a preset by its name or by the path of its file.

    Raises:
        UsageError: It does not exist or cannot be read.
    """
    if name == NONE:
        return DEFAULTS
    if name in names():
        return _shipped(name)
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        raise UsageError(
            f"unknown preset {name!r}; {accepted_names(name, [*names(), NONE])}, or a .yaml file of your own"
        )
    if not path.is_file():
        raise UsageError(f"preset {path} {'is not a file' if path.exists() else 'does not exist'}")
    return _checked(name, read_yaml(path, f"preset {path}"))


@functools.cache
def _shipped(name: str) -> Preset:
    """Return a preset of the package; its file is read once, since a study needs it for every run."""
    path = FOLDER / f"{name}.yaml"
    return _checked(name, read_yaml(path, f"preset {path}"))


def read_yaml(path: Path, shown: str) -> Any:
    """Return the contents of a file of settings.

    Args:
        path: YAML.
        shown: Name of the file in messages.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{shown} cannot be read: {' '.join(str(error).split())}") from None


def _checked(name: str, contents: Any) -> Preset:
    if not isinstance(contents, dict):
        raise UsageError(f"preset {name} is not a mapping; expected {', '.join(KEYS)}")
    for key in contents:
        if key not in KEYS:
            raise UsageError(f"preset {name}: unknown key {key!r}; {accepted_names(str(key), KEYS)}")
    sections = {"everywhere": contents.get("everywhere"), **(contents.get("environments") or {})}
    for section, given in sections.items():
        inner = [given, *(given[name] for name in ALGORITHMS if name in given)] if isinstance(given, dict) else [given]
        if not all(isinstance(part, dict | None) for part in inner):
            raise UsageError(f"preset {name}: {section} is {given!r}; expected flags and their values")
    given = {key: value for key, value in contents.items() if value is not None}
    return Preset(name, **given | {key: tuple(given[key]) for key in ("trainers", "needs") if key in given})


def check_needs(preset: Preset, settings: Mapping[str, Any]) -> None:
    """Reject settings that lack a flag that a preset needs.

    Raises:
        UsageError: A flag is missing.
    """
    for flag in preset.needs:
        if settings.get(flag) is None:
            raise UsageError(f"preset {preset.name} needs --{flag}: {preset.about}")


def automatic(env: str, trainer: str) -> Preset:
    """Return the automatic preset of an environment and an algorithm, or the one without settings."""
    if not is_algorithm(trainer):
        return DEFAULTS  # rejected elsewhere
    trainer = built_in(trainer)
    fitting = (preset for preset in map(load, names()) if preset.automatic and trainer in preset.trainers)
    return next((preset for preset in fitting if preset.knows(env)), DEFAULTS)


def listed() -> str:
    """Return one line per preset: its name, description and environments."""
    presets = [*(load(name) for name in names()), DEFAULTS]
    width = max(len(preset.name) for preset in presets)
    return "\n".join(f"{preset.name:<{width}}  {preset.about}{_scope(preset)}" for preset in presets)


def _scope(preset: Preset) -> str:
    known = ", ".join(preset.environments)
    return f" [chosen by {known}]" if preset.automatic else f" [own settings for {known}]" if known else ""


def shown(settings: Mapping[str, Any]) -> str:
    """Return flags and values as typed on a command line."""
    text = {flag: ",".join(map(str, v)) if isinstance(v, list | tuple) else str(v) for flag, v in settings.items()}
    return " ".join(f"--{flag} {value}" for flag, value in text.items())


def fitting(settings: Mapping[str, Any], given: Iterable[str]) -> dict[str, Any]:
    """Return a preset's settings without those that flags override; a given exploration also replaces its scale."""
    replaced = {*given} | ({"exploration_sigma", "exploration_theta"} if "exploration" in given else set())
    return {flag: value for flag, value in settings.items() if flag not in replaced}


def converted(name: str, settings: Mapping[str, Any], accepted: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
    """Return the settings of a preset as read by the flags.

    Args:
        name: Name of the preset.
        settings: Flags and values.
        accepted: The readers of the flags that a preset may contain.

    Raises:
        UsageError: A flag is unknown, or its reader rejects the value.
    """
    values = {}
    for flag, value in settings.items():
        if flag not in accepted:
            raise UsageError(f"preset {name}: unknown flag {flag!r}; {accepted_names(flag, sorted(accepted))}")
        try:
            values[flag] = accepted[flag](written(value))
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"preset {name}: {flag} {error}") from None
    return values


def method_of(preset: Preset, trainer: str) -> tuple[str | None, Mapping[str, Any]]:
    """Return a preset's replay method and its arguments, or the algorithm's own; None means the default method."""
    row = ALGORITHMS[trainer]
    if preset.buffer or not row.buffer_args:
        return preset.buffer, preset.buffer_args
    return row.buffer, row.buffer_args
