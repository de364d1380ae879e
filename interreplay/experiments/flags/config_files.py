"""Configuration files: the settings of one run by the names of its flags, based on other files.

A file holds flags and values, and can list other files under ``defaults``. Later files override earlier ones, the file
overrides its defaults, words ``key=value`` on the command line override the file, and flags override everything.
A layer that names another replay method discards the arguments of the previous method.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from interreplay.errors import UsageError, did_you_mean
from interreplay.experiments.flags import presets
from interreplay.experiments.flags.original_flags import INSTEAD
from interreplay.experiments.flags.reading import METAVARS, PAIR
from interreplay.experiments.flags.replay_flags import names_method
from interreplay.experiments.flags.run_flags import ALIASES, CHANGEABLE, FLAGS, INVOCATION, METHOD
from interreplay.experiments.flags.values import assignment, drop_settings, read_list, read_literal, read_written

CONFIG = "config"
DEFAULTS = "defaults"
ARGUMENTS = tuple(name for name in FLAGS if METAVARS.get(name) == PAIR)
"""Flags with arguments by name as values: mappings in a file, merged one by one."""
NAMES = ALIASES | {"buffer_args": "buffer_arg", "env_arg": "env_args"}
INVOKED = INVOCATION - CHANGEABLE
"""Flags of the command line that files cannot contain."""
NETWORK = "network"
"""Flag whose values are layers by stream: nested mappings, merged by name."""
SUFFIXES = (".yaml", ".yml")


def merge_config(flags: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Return the flags of a command line merged with the file ``config`` and with words such as ``buffer_arg.k=10``.

    In the result, ``config`` describes the files.
    """
    line = dict(flags)
    name = line.pop(CONFIG, None)
    assigned: dict[str, Any] = {}
    for word in words:
        key, _, text = word.partition("=")
        assigned = over(assigned, _read({key: text}, word))
    if name is None:
        return over(assigned, line)
    layers = _layers(name, None, ())
    settings: dict[str, Any] = {}
    for path, contents in layers:
        settings = over(settings, _read(contents, f"configuration {shorten_path(path)}"))
    files = dict.fromkeys(shorten_path(path) for path, _ in layers)
    *others, file = files
    if others:
        file = f"{file} over {', '.join(others)}"
    return over(over(settings, assigned), line) | {CONFIG: file}


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings overridden by others; arguments of a replay method are merged."""
    merged = dict(below)
    same = above.get("buffer") and above["buffer"] == below.get("buffer")
    if names_method(above) and names_method(below) and not same:
        merged = drop_settings(below, METHOD)
    for name, value in above.items():
        if name in (*ARGUMENTS, NETWORK) and name in merged:
            value = _join(name, merged[name], value)
        merged[name] = value
    return merged


def _join(flag: str, below: Any, above: Any) -> Any:
    """Return the merged arguments of two mappings or lists of pairs, in the form of the flag."""
    if flag == NETWORK:
        return _merge(below, above)
    if not FLAGS[flag].repeat:
        return {**below, **above}
    return list((dict(below) | dict(above)).items())


def _merge(below: Any, above: Any) -> Any:
    """Merge two nested mappings; values of `above` replace those of `below`."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    found = dict(below)
    for name, value in above.items():
        found[name] = _merge(below.get(name), value)
    return found


def _layers(name: str, asking: Path | None, above: tuple[Path, ...]) -> list[tuple[Path, dict[str, Any]]]:
    """Return the contents of a file and its defaults by path, the lowest precedence first.

    The file `asking` lists it under ``defaults``; `above` are this file and those that list it.
    """
    path = _file(name, asking)
    place = f"configuration {shorten_path(path)}"
    if path in above:
        raise UsageError(f"{place}: its defaults form a cycle: {' -> '.join(map(shorten_path, (*above, path)))}")
    contents = presets.read_yaml(path, place)
    if not isinstance(contents, dict):
        raise UsageError(f"{place} is not a mapping; expected flags such as trainer: DQN")
    for key in contents:
        if key in presets.KEYS and NAMES.get(key, key) not in FLAGS:
            raise UsageError(f"{place} has the key {key!r} of a preset; use --preset {shorten_path(path)} for a preset")
    defaults = contents.pop(DEFAULTS, [])
    if isinstance(defaults, str):
        defaults = [defaults]
    if not isinstance(defaults, list):
        raise UsageError(f"{place}: {DEFAULTS} is {defaults!r}; expected a list of files")
    layers = []
    for other in defaults:
        layers += _layers(str(other), path, (*above, path))
    return [*layers, (path, contents)]


def _read(contents: Mapping[Any, Any], place: str) -> dict[str, Any]:
    """Return flags and values as read by the flags."""
    found: dict[str, Any] = {}
    for key, value in contents.items():
        first, dot, argument = str(key).partition(".")
        name = first.replace("-", "_")
        name = NAMES.get(name, name)
        if name == NETWORK and dot:
            if isinstance(value, str):
                value = read_literal(value)
            for part in reversed(argument.split(".")):
                value = {part: value}
            found[name] = _merge(found.get(name), value)
            continue
        if name in INVOKED:
            raise UsageError(f"{place}: {key} is not a setting of a run; give it as --{name} on the command line")
        if name not in FLAGS or (dot and name not in ARGUMENTS):
            hint = INSTEAD.get(name) or did_you_mean(name, [*(FLAGS.keys() - INVOKED), *NAMES, DEFAULTS])
            problem = "; ".join(filter(None, [f"unknown key {str(key)!r}", hint, "--help all lists every flag"]))
            raise UsageError(f"{place}: {problem}".replace("?;", "?"))
        if name in found and not dot:
            raise UsageError(f"{place} contains {name} twice, the second time as {key!r}; give it once")
        try:
            if dot:
                value = {argument: value}
            if name in ARGUMENTS:
                found[name] = _join(name, found.get(name, {}), _arguments(value))
            elif (name == "buffer" or FLAGS[name].type is str) and not isinstance(value, str | int | float):
                raise argparse.ArgumentTypeError(f"must be a name, got {value!r}")
            else:
                found[name] = read_written(FLAGS[name], value, f"{place}: {key}")
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"{place}: {key} {error}") from None
    return found


def _arguments(value: Any) -> dict[str, Any]:
    """Return arguments from a mapping or from words as typed."""
    if not isinstance(value, dict):
        return dict(map(assignment, read_list(value)))
    found = {}
    for name, item in value.items():
        found[str(name)] = item
        if isinstance(item, str):
            found[str(name)] = read_literal(item)
    return found


def _file(name: str, asking: Path | None) -> Path:
    """Return the file of a name: a path with suffix if it exists, else a file of the folder ``configs``."""
    path = Path(name)
    place = ""
    if asking:
        path = asking.parent / name
        place = f"configuration {shorten_path(asking)}: {DEFAULTS}: "
    if name.endswith(SUFFIXES) and path.is_file():
        return path.resolve()
    ours = folder() / name
    if not name.endswith(SUFFIXES):
        ours = folder() / f"{name}.yaml"
    if ours.is_file():
        return ours.resolve()
    near = did_you_mean(name, [*(each.name for each in path.parent.glob("*.y*ml")), *names()])
    raise UsageError(
        f"{place}there is no configuration {name!r}; {near} accepted: a .yaml file, or {', '.join(names())}"
    )


@functools.cache
def folder() -> Path:
    """Return the folder ``configs`` of the clone or the installation."""
    root = Path(__file__).resolve().parents[3]
    if not (root / "setup.cfg").is_file():
        for base in (root, *root.parents):  # after pip install --target, and in an environment
            installed = base / "share/interreplay/configs"
            if installed.is_dir():
                return installed
    return root / "configs"


def names() -> list[str]:
    """Return the names of the files in the folder ``configs``."""
    return sorted(path.relative_to(folder()).with_suffix("").as_posix() for path in folder().rglob("*.yaml"))


def shorten_path(path: Path) -> str:
    """Return a path for messages: relative to the parent of ``configs`` or to the current folder if it is inside."""
    for base in (folder().parent, Path.cwd()):
        if path.is_relative_to(base):
            return str(path.relative_to(base))
    return str(path)
