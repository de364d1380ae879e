"""Presets: settings by environment and algorithm, in the data files of `interreplay/presets`.

A file contains ``about``. Optional keys: ``automatic`` (used for its environments if no preset is named), ``trainers``
(the algorithms it supports), ``needs`` (flags that must also be given), ``buffer``, ``buffer_args``, ``everywhere`` and
``environments``. The last two hold flags and values; flags under an algorithm's name apply to that algorithm. Names of
environments have no version; ``*`` matches anything.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from interreplay.errors import UsageError, accepted_names, check_keys
from interreplay.experiments.flags.reading import Flag
from interreplay.experiments.flags.run_flags import ALIASES, FLAGS
from interreplay.experiments.flags.values import drop_settings, format_value, read_written, select_settings
from interreplay.learning.algorithms_table import ALGORITHMS, UNROLLS, get_built_in, is_algorithm

FOLDER = Path(__file__).resolve().parents[2] / "presets"
NONE = "none"
_MERGE = "tag:yaml.org,2002:merge"
"""Tag of the key ``<<``."""


@dataclass(frozen=True)
class Preset:
    """The contents of a file; the module documents the keys."""

    name: str
    about: str = ""
    automatic: bool = False
    trainers: Collection[str] = tuple(name for name in ALGORITHMS if name not in UNROLLS)
    needs: Collection[str] = ()
    buffer: str | None = None
    buffer_args: Mapping[str, Any] = field(default_factory=dict)
    everywhere: Mapping[str, Any] = field(default_factory=dict)
    environments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def get_environment_flags(self, env: str) -> list[Mapping[str, Any]]:
        """Return the flags and values that apply to this environment only."""
        bare = env.rpartition(":")[2].rsplit("-v", 1)[0]
        return [given for pattern, given in self.environments.items() if fnmatchcase(bare, pattern)]

    def settings(self, trainer: str, env: str) -> dict[str, Any]:
        """Return flags and values for an algorithm on an environment; more specific ones win."""
        trainer = get_built_in(trainer)
        if trainer not in self.trainers:
            raise UsageError(
                f"preset {self.name} is for {', '.join(self.trainers)}, not for {trainer}; choose one by --trainer"
            )
        found: dict[str, Any] = {}
        for given in (self.everywhere, *self.get_environment_flags(env)):
            found |= given
            found |= given.get(trainer, {})
        return drop_settings(found, ALGORITHMS)


KEYS = {
    "about": (str, "a text"),
    "automatic": (bool, "true or false"),
    "trainers": (list, "a list of algorithms, such as [SAC, TD3]"),
    "needs": (list, "a list of flags"),
    "buffer": (str, "the name of a replay method, such as NMER"),
    "buffer_args": (dict, "arguments of the replay method, such as {k: 10}"),
    "everywhere": (dict, "flags and their values"),
    "environments": (dict, "flags by environment, such as {Hopper: {total_env_steps: 50000}}"),
}
"""The type of each key's value, and what messages call it."""
DEFAULTS = Preset(NONE, "the defaults of --help for every environment", automatic=True, trainers=tuple(ALGORITHMS))


def names() -> list[str]:
    """Return the names of the package's presets."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str) -> Preset:
    """Return a preset by its name or by the path of its file."""
    if name == NONE:
        return DEFAULTS
    if name in names():
        return _shipped(name, FOLDER / f"{name}.yaml")
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        accepted = accepted_names(name, [*names(), NONE])
        raise UsageError(f"unknown preset {name!r}; {accepted}, or a .yaml file of your own")
    return _read_checked(name, path)


class UniqueKeyLoader(yaml.SafeLoader):
    """Loader of YAML that rejects a key that a mapping has twice; PyYAML uses the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        keys = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if key.value in keys:
                    raise ConstructorError(problem=f"found the key {key.value!r} twice", problem_mark=key.start_mark)
                keys.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path, shown: str) -> Any:
    """Return the contents of a YAML file; `shown` is its name in messages."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), UniqueKeyLoader)
    except FileNotFoundError:
        raise UsageError(f"{shown} does not exist") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{shown} cannot be read: {' '.join(str(error).split())}") from None


def with_types(contents: Mapping[str, Any], keys: Mapping[str, tuple[type, str]], place: str) -> dict[str, Any]:
    """Return the entries of a mapping from a file that are not None, after checking their keys and types.

    `keys` maps each accepted key to the type of its value and to what messages call it; `place` begins messages.
    """
    given = {key: value for key, value in contents.items() if value is not None}
    check_keys(place, contents, keys)
    for key, value in given.items():
        kind, expected = keys[key]
        if not isinstance(value, kind):
            raise UsageError(f"{place}: {key} is {value!r}; expected {expected}")
    return given


def _read_checked(name: str, path: Path) -> Preset:
    """Return the preset of a file."""
    contents = read_yaml(path, f"preset {path}")
    if not isinstance(contents, dict):
        raise UsageError(f"preset {name} is not a mapping; expected {', '.join(KEYS)}")
    for key in contents:
        if key not in KEYS and str(key).partition(".")[0].replace("-", "_") in {*FLAGS, *ALIASES, "defaults"}:
            raise UsageError(
                f"preset {name} has the flag {key!r} as a key; use --config {name} for a file of flags, or write flags "
                "of a preset under everywhere"
            )
    given = with_types(contents, KEYS, f"preset {name}")
    for trainer in given.get("trainers", ()):
        if trainer not in ALGORITHMS:
            raise UsageError(
                f"preset {name}: unknown algorithm {trainer!r}; {accepted_names(str(trainer), ALGORITHMS)}"
            )
    sections = {"everywhere": given.get("everywhere", {})} | given.get("environments", {})
    for section, flags in sections.items():
        parts = [flags]
        if isinstance(flags, dict):
            parts += select_settings(flags, ALGORITHMS).values()
        for part in parts:
            if not isinstance(part, dict):
                raise UsageError(f"preset {name}: {section} is {flags!r}; expected flags and their values")
    return Preset(name, **given)


_shipped = functools.cache(_read_checked)  # a study needs the presets of the package for every run


def find_automatic(env: str, trainer: str) -> Preset:
    """Return the automatic preset of an environment and an algorithm, or the one without settings."""
    if is_algorithm(trainer):  # others are rejected elsewhere
        for preset in map(load, names()):
            if preset.automatic and get_built_in(trainer) in preset.trainers and preset.get_environment_flags(env):
                return preset
    return DEFAULTS


def list_presets() -> str:
    """Return one line per preset: its name, description and environments."""
    width = max(map(len, names()))
    lines = []
    for name in (*names(), NONE):
        preset = load(name)
        line = f"{name:<{width}}  {preset.about}"
        if preset.environments:
            how = "chosen by" if preset.automatic else "own settings for"
            line = f"{line} [{how} {', '.join(preset.environments)}]"
        lines.append(line)
    return "\n".join(lines)


def format_flags(settings: Mapping[str, Any]) -> str:
    """Return flags and values as typed on a command line."""
    return " ".join(f"--{flag} {format_value(value)}" for flag, value in settings.items())


def convert_settings(name: str, settings: Mapping[str, Any], accepted: Mapping[str, Flag]) -> dict[str, Any]:
    """Return the settings of a preset as read by the flags.

    Raises:
        UsageError: A flag is unknown, or its reader rejects the value.
    """
    values = {}
    for flag, value in settings.items():
        if flag not in accepted:
            raise UsageError(f"preset {name}: unknown flag {flag!r}; {accepted_names(flag, sorted(accepted))}")
        try:
            values[flag] = read_written(accepted[flag], value)
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"preset {name}: {flag} {error}") from None
    return values
