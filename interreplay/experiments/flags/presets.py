"""Presets: settings by environment and algorithm, in the data files of `interreplay/presets`.

A file contains ``about``. Optional keys: ``automatic`` (used for its environments if no preset is named), ``trainers``
(the algorithms it supports), ``needs`` (flags that must also be given), ``buffer``, ``buffer_args``, ``everywhere`` and
``environments``. The last two hold flags and values; flags under an algorithm's name apply to that algorithm. Names of
environments have no version; ``*`` matches anything.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from fnmatch import fnmatchcase
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

import yaml
from yaml.constructor import ConstructorError

from interreplay.errors import UsageError, accepted_names, check_keys
from interreplay.experiments.flags.reading import Flag
from interreplay.experiments.flags.run_flags import ALIASES, FLAGS
from interreplay.experiments.flags.values import drop_settings, format_value, read_written, select_settings
from interreplay.learning.algorithms_table import ALGORITHMS, UNROLLS, get_built_in, is_algorithm

FOLDER = Path(__file__).resolve().parents[2] / "presets"
NONE = "none"
T = TypeVar("T")
TYPES: dict[Any, tuple[Any, str]] = {
    str: (str, "a text"),
    bool: (bool, "true or false"),
    int: (int, "a whole number"),
    float: (int | float, "a number"),
    list: (list, "a list"),
    dict: (dict, "a mapping"),
}
"""Types of fields: the accepted types of their values in files, and what messages call them."""
_MERGE = "tag:yaml.org,2002:merge"
"""Tag of the key ``<<``."""


@dataclass(frozen=True)
class Preset:
    """The contents of a file; the module documents the keys."""

    name: str
    about: str = ""
    automatic: bool = False
    trainers: list[str] = field(default_factory=lambda: [name for name in ALGORITHMS if name not in UNROLLS])
    needs: list[str] = field(default_factory=list)
    buffer: str | None = None
    buffer_args: dict[str, Any] = field(default_factory=dict)
    everywhere: dict[str, Any] = field(default_factory=dict)
    environments: dict[str, dict[str, Any]] = field(default_factory=dict)

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


KEYS = tuple(entry.name for entry in fields(Preset) if entry.name != "name")
"""Keys of a file."""
DEFAULTS = Preset(NONE, "the defaults of --help for every environment", automatic=True, trainers=list(ALGORITHMS))


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


def from_file(kind: type[T], contents: Any, place: str, **more: Any) -> T:
    """Return a dataclass from a mapping in a file and from `more` fields. Keys without a value have their defaults.

    Raises:
        UsageError: A key is unknown or missing, or a value has another type than its field; `place` begins the message.
    """
    entries = fields(cast(Any, kind))
    accepted = [entry.name for entry in entries if entry.name not in more]
    if not isinstance(contents, Mapping):
        raise UsageError(f"{place} is not a mapping; expected {', '.join(accepted)}")
    check_keys(place, contents, accepted)
    given = {key: value for key, value in contents.items() if value is not None} | more
    hints = get_type_hints(kind)
    for entry in entries:
        key = entry.name
        if key not in given:
            if entry.default is MISSING and entry.default_factory is MISSING:
                raise UsageError(f"{place} lacks {key}")
            continue
        hint, *_ = get_args(hints[key]) if isinstance(hints[key], UnionType) else [hints[key]]
        types, expected = TYPES[get_origin(hint) or hint]
        if not isinstance(given[key], types):
            raise UsageError(f"{place}: {key} is {given[key]!r}; expected {expected}")
    return kind(**given)


def _read_checked(name: str, path: Path) -> Preset:
    """Return the preset of a file."""
    contents = read_yaml(path, f"preset {path}")
    for key in contents if isinstance(contents, dict) else ():
        if key not in KEYS and str(key).partition(".")[0].replace("-", "_") in {*FLAGS, *ALIASES, "defaults"}:
            raise UsageError(
                f"preset {name} has the flag {key!r} as a key; use --config {name} for a file of flags, or write flags "
                "of a preset under everywhere"
            )
    preset = from_file(Preset, contents, f"preset {name}", name=name)
    for section, flags in ({"everywhere": preset.everywhere} | preset.environments).items():
        parts = [flags]
        if isinstance(flags, dict):
            parts += select_settings(flags, ALGORITHMS).values()
        for part in parts:
            if not isinstance(part, dict):
                raise UsageError(f"preset {name}: {section} is {flags!r}; expected flags and their values")
    return preset


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
    """Return the settings of a preset as read by the `accepted` flags."""
    values = {}
    for flag, value in settings.items():
        if flag not in accepted:
            raise UsageError(f"preset {name}: unknown flag {flag!r}; {accepted_names(flag, sorted(accepted))}")
        values[flag] = read_written(accepted[flag], value, f"preset {name}: {flag}")
    return values
