"""Configuration files: the settings of one run by the names of its flags, based on other files.

A file holds flags and values, and can list other files under ``defaults``. Later files override earlier ones, the file
overrides its defaults, words ``key=value`` on the command line override the file, and flags override everything.
A layer that names another replay method discards the arguments of the previous method.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interreplay.errors import UsageError, did_you_mean
from interreplay.experiments.flags import presets
from interreplay.experiments.flags.original_flags import REMOVED, RENAMED
from interreplay.experiments.flags.reading import METAVARS, PAIR
from interreplay.experiments.flags.replay_flags import names_method
from interreplay.experiments.flags.run_flags import ALIASES, FLAGS, METHOD
from interreplay.experiments.flags.values import assignment, literal, method_name, read_written

CONFIG, DEFAULTS = "config", "defaults"
ARGUMENTS = tuple(name for name, metavar in METAVARS.items() if metavar == PAIR and name in FLAGS)
"""Flags whose values are arguments by name: mappings in a file, merged one by one."""
NAMES = ALIASES | {"buffer_args": "buffer_arg", "env_arg": "env_args"}
INVOKED = frozenset(name for name, flag in FLAGS.items() if flag.scope == "invocation" and not flag.changeable)
"""Flags of the command line that files cannot contain."""
NETWORK = "network"
"""Flag whose values are layers by stream: nested mappings, merged by name."""
SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class Configuration:
    """The contribution of a configuration file to a run.

    Attributes:
        files: The files that were read, as shown to the user; the requested one is the last.
        settings: Flags and values of the files that the command line does not override.
        places: The file that contains each of them.
    """

    files: tuple[str, ...]
    settings: Mapping[str, Any]
    places: Mapping[str, str]

    def described(self) -> str:
        """Return a line with the files and the settings from them."""
        others = f" over {', '.join(self.files[:-1])}" if self.files[1:] else ""
        settings = {name: value for name, value in self.settings.items() if name not in ARGUMENTS}
        arguments = []
        for flag in ARGUMENTS:
            for name, value in dict(self.settings.get(flag, ())).items():
                arguments.append(f"--{flag} {name}={value}")
        return f"configuration {self.files[-1]}{others}: {' '.join([presets.shown(settings), *arguments])}".strip()

    def origin(self, message: str) -> str:
        """Return the files that contain the settings named in a message, or ""."""
        named = [name for name, value in self.settings.items() if _mentions(message, name, value)]
        return ", ".join(f"{name} is from {self.places[name]}" for name in named)


def _mentions(message: str, name: str, value: Any) -> bool:
    message = message.partition("accepted:")[0]
    flag = name if "_" in name else f"(--|with ){name}"  # "buffer" alone is an ordinary word
    patterns = [flag, re.escape(value)] if name in ("trainer", "env", "buffer", "preset") else [flag]
    return any(re.search(rf"(?<!\w){pattern}(?!\w)", message) for pattern in patterns)


@contextmanager
def origins_named(configuration: Configuration | None) -> Iterator[None]:
    """Add the file that contains a rejected setting to the error."""
    try:
        yield
    except UsageError as error:
        found = configuration.origin(str(error)) if configuration else ""
        raise UsageError(f"{error}; {found}") if found else error from error.__cause__


def completed(flags: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Merge the flags of a command line with a configuration file and words ``key=value``.

    Args:
        flags: Flags and values that were given; ``config`` names the file.
        words: Such as ``gamma=0.95`` or ``buffer_arg.k=10``.

    Returns:
        Flags and values; ``config`` is a `Configuration`.

    Raises:
        UsageError: A file or a word contains an unknown key or a rejected value.
    """
    settings: dict[str, Any] = {}
    places: dict[str, str] = {}
    files = _layers(flags[CONFIG]) if CONFIG in flags else []
    for place, contents in files:
        settings = over(settings, contents)
        places |= dict.fromkeys(contents, place)
    line = {name: value for name, value in flags.items() if name != CONFIG}
    assigned: dict[str, Any] = {}
    for word in words:
        key, _, text = word.partition("=")
        assigned = over(assigned, _read({key: text}, word))
    result = over(over(settings, assigned), line)
    if CONFIG in flags:
        kept = {name: value for name, value in settings.items() if name not in {**assigned, **line} and name in result}
        result[CONFIG] = Configuration(tuple(place for place, _ in files), kept, places)
    return result


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings overridden by others; arguments of a replay method are merged."""
    named = names_method(above) and names_method(below)
    if named and (not above.get("buffer") or above["buffer"] != below.get("buffer")):
        below = {name: value for name, value in below.items() if name not in METHOD}
    merged = {**below, **above}
    for flag in below.keys() & above.keys() & {*ARGUMENTS, NETWORK}:
        merged[flag] = _joined(flag, below[flag], above[flag])
    return merged


def _joined(flag: str, below: Any, above: Any) -> Any:
    """Return the merged arguments of two mappings or lists of pairs, in the form of the flag."""
    if flag == NETWORK:
        return _merged(below, above)
    if not FLAGS[flag].repeat:
        return {**below, **above}
    return [pair for pair in below if pair[0] not in dict(above)] + list(above)


def _merged(below: Any, above: Any) -> Any:
    """Return a nested mapping with the values of another in place of its own."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return below | {name: _merged(below.get(name), value) for name, value in above.items()}


def _layers(name: str) -> list[tuple[str, dict[str, Any]]]:
    """Return a file and its defaults, the weakest first, each as its shown name and its contents."""
    found: dict[Path, tuple[str, dict[str, Any]]] = {}

    def visit(path: Path, above: tuple[Path, ...]) -> None:
        if path in above:
            circle = " -> ".join(shown(each) for each in (*above[above.index(path) :], path))
            raise UsageError(f"configuration {shown(above[0])}: its defaults form a cycle: {circle}")
        contents = _contents(path)
        for other in _defaults(contents.pop(DEFAULTS, []), path):
            visit(other, (*above, path))
        found.pop(path, None)  # later files are stronger
        found[path] = shown(path), _read(contents, f"configuration {shown(path)}")

    visit(_file(name, None), ())
    return list(found.values())


def _contents(path: Path) -> dict[str, Any]:
    contents = presets.read_yaml(path, f"configuration {shown(path)}")
    if not isinstance(contents, dict):
        raise UsageError(f"configuration {shown(path)} is not a mapping; expected flags such as trainer: DQN")
    return {str(key): value for key, value in contents.items()}


def _defaults(names: Any, path: Path) -> list[Path]:
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"configuration {shown(path)}: {DEFAULTS} is {names!r}; expected a list of files")
    return [_file(name, path) for name in names]


def _read(contents: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return flags and values as read by the flags."""
    found: dict[str, Any] = {}
    for key, value in contents.items():
        first, dot, argument = key.partition(".")
        name = NAMES.get(plain := first.replace("-", "_"), plain)
        if name == NETWORK and dot:
            for part in reversed(argument.split(".")):
                value = {part: literal(value) if isinstance(value, str) else value}
            found[name] = _merged(found.get(name), value)
            continue
        if name not in FLAGS or name in INVOKED or (dot and name not in ARGUMENTS):
            raise UsageError(f"{place}: {_unknown(key, name)}")
        if name in found and not dot:
            raise UsageError(f"{place} contains {name} twice, the second time as {key!r}; give it once")
        try:
            read = _arguments(name, {argument: value} if dot else value) if name in ARGUMENTS else _value(name, value)
            found[name] = _joined(name, found[name], read) if name in found else read
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"{place}: {key} {error}") from None
    return found


def _value(name: str, value: Any) -> Any:
    if FLAGS[name].type in (str, method_name) and not isinstance(value, str | int | float):
        raise argparse.ArgumentTypeError(f"must be a name, got {value!r}")
    return read_written(FLAGS[name], value)


def _arguments(flag: str, value: Any) -> Any:
    """Return arguments from a mapping or from words as typed, in the form of the flag."""
    if isinstance(value, dict):
        pairs = [(str(name), literal(item) if isinstance(item, str) else item) for name, item in value.items()]
    else:
        pairs = [assignment(str(item)) for item in (value if isinstance(value, list) else [value])]
    return pairs if FLAGS[flag].repeat else dict(pairs)


def _unknown(key: str, name: str) -> str:
    if name in INVOKED:
        return f"{key} is not a setting of a run; give it as --{name} on the command line"
    if name in presets.KEYS:
        return f"{key!r} is a key of presets; use --preset for this file, or give flags and values"
    if name in REMOVED:
        return f"{key!r} of the original work: {REMOVED[name]}"
    accepted = [name for name in (*FLAGS, *NAMES, DEFAULTS) if name not in INVOKED]
    hint = RENAMED.get(name) or did_you_mean(name, accepted)
    return (
        f"unknown key {key!r}; {hint}{' ' if hint.endswith('?') else '; ' if hint else ''}--help all lists every flag"
    )


def _file(name: str, asking: Path | None) -> Path:
    """Return the file of a name: a path with suffix if it exists, else a file of the folder ``configs``."""
    path = (asking.parent if asking else Path()) / name
    if name.endswith(SUFFIXES) and path.is_file():
        return path.resolve()
    if (ours := folder() / (name if name.endswith(SUFFIXES) else f"{name}.yaml")).is_file():
        return ours.resolve()
    near = did_you_mean(name, [*(each.name for each in path.parent.glob("*.y*ml")), *names()])
    where = f"configuration {shown(asking)}: {DEFAULTS}: " if asking else ""
    listed = f"accepted: a .yaml file, or {', '.join(names())}"
    raise UsageError(f"{where}there is no configuration {name!r}; {near} {listed}".replace(";  ", "; "))


@functools.cache
def folder() -> Path:
    """Return the folder ``configs`` of the clone or the installation."""
    root = Path(__file__).resolve().parents[3]
    if (root / "setup.cfg").is_file():
        return root / "configs"
    recorded = (Path(str(file.locate())) for file in importlib.metadata.files("interreplay") or ())
    installed = (root / "share/interreplay/configs").glob("*/base.yaml")  # after pip install --target
    bases = (path for path in (*recorded, *installed) if path.match("share/interreplay/configs/*/base.yaml"))
    return next((path.resolve().parents[1] for path in bases if path.is_file()), root / "configs")


def names() -> list[str]:
    """Return the names of the files in the folder ``configs``."""
    return sorted(path.relative_to(folder()).with_suffix("").as_posix() for path in folder().rglob("*.yaml"))


def shown(path: Path) -> str:
    """Return a path for messages: relative to the parent of ``configs`` or to the current folder if it is inside."""
    bases = [base for base in (folder().parent, Path.cwd()) if path.is_relative_to(base)]
    return str(path.relative_to(bases[0])) if bases else str(path)
