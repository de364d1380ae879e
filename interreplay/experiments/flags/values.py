"""Readers of the values of flags; each raises ``argparse.ArgumentTypeError`` with what it accepts."""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from interreplay.errors import UsageError
from interreplay.learning.setting_fields import WholeNumber, json_or_python

_OPENING = "{[("
_CLOSING = "}])"
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_SECONDS = (86_400, 3_600, 60, 1)


def seconds(text: str) -> int:
    """Return the seconds of a duration such as ``90s``, ``30m``, ``2h``, ``1d`` or ``1h30m``."""
    match = _DURATION.fullmatch(text)
    counts = match.groups("0") if match else ()
    total = sum(int(count) * length for count, length in zip(counts, _SECONDS, strict=False))
    if not 0 < total < 10**9:
        raise argparse.ArgumentTypeError(f"must be a duration such as 90s, 30m, 2h, 1d or 1h30m, got {text!r}")
    return total


def duration(text: str) -> str:
    """Read a duration such as ``90s`` or ``1h30m``; it is stored as written."""
    seconds(text)
    return text


def read_nonempty(text: str) -> str:
    """Read a name of any form; an empty one, such as of an unset variable of the shell, is rejected."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"must be a name, got {text!r}")
    return text


def updates_per_step(text: str) -> float:
    """Read ``n`` (updates per environment step) or ``a,b`` (b updates per a steps)."""
    try:
        *steps, updates = map(float, _words(text))
        (per,) = steps or [1.0]
    except ValueError:
        updates = per = 0.0
    if not (0 < updates < 1e6 and 0 < per < 1e6):
        raise argparse.ArgumentTypeError(f"must be a number above 0 or a pair such as 1,20, got {text!r}")
    return updates / per


def read_path(text: str) -> str:
    """Read a path, made absolute."""
    return str(Path(text).expanduser().absolute())


def env_steps(text: str) -> tuple[int, ...]:
    """Read numbers of env steps between commas or spaces."""
    return tuple(map(WholeNumber(1), _words(text)))


def sources(text: str) -> str:
    """Read the sources of a mix of unrolls, JSON or Python literals; they are checked with the algorithm."""
    return text


def assignment(text: str) -> tuple[str, Any]:
    """Read ``name=value``, with the value read by `read_literal`."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise argparse.ArgumentTypeError(f"must look like k=10, got {text!r}")
    return name.strip(), read_literal(value.strip())


def assignments(text: str) -> dict[str, Any]:
    """Read words ``name=value``, or a mapping in JSON or Python, into a mapping."""
    try:
        mapping = json_or_python(text)
    except ValueError:
        return dict(map(assignment, split(text)))
    if isinstance(mapping, dict):
        return mapping
    return dict([assignment(text)])


def read_literal(text: str) -> Any:
    """Read a Python or YAML scalar, a list or a mapping (``10``, ``true``, ``[1, 2]``, ``{"k": 1}``), else a string."""
    words = {"true": True, "false": False, "none": None, "null": None, "~": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    if isinstance(value, tuple):
        return list(value)
    return value if isinstance(value, int | float | str | list | dict) else text


def format_value(value: Any) -> str:
    """Return a value of a data file as typed on a command line: with commas, colons in pairs, JSON or ``none``."""
    if value is None:
        return "none"
    if isinstance(value, dict):
        return json.dumps(value)
    if not isinstance(value, list | tuple):
        return str(value)
    if value and isinstance(value[0], dict):
        return json.dumps(value)
    words = []
    for item in value:
        pair = item if isinstance(item, list | tuple) else [item]
        words.append(":".join(map(str, pair)))
    return ",".join(words)


def _words(text: str) -> list[str]:
    return text.strip().strip("[]()").replace(",", " ").split()


def select_settings(settings: Mapping[str, Any], names: Container[str]) -> dict[str, Any]:
    """Return the settings with these names."""
    return {name: value for name, value in settings.items() if name in names}


def drop_settings(settings: Mapping[str, Any], names: Container[str]) -> dict[str, Any]:
    """Return the settings without these names."""
    return {name: value for name, value in settings.items() if name not in names}


def split(text: str) -> list[str]:
    """Return the words between commas or spaces outside of all brackets, as in ``Uniform,NMER{k: 10}``."""
    words = [""]
    depth = 0
    for letter in text:
        depth += (letter in _OPENING) - (letter in _CLOSING)
        if depth == 0 and (letter == "," or letter.isspace()):
            words.append("")
        else:
            words[-1] += letter
    return list(filter(None, words))


def search(text: str) -> dict[str, str]:
    """Return distributions by setting, from text such as ``k=randint(3,30),alpha=uniform(.2,2)``."""
    found = {}
    for word in split(text):
        name, equals, distribution = word.partition("=")
        if not (equals and name.isidentifier() and distribution):
            raise argparse.ArgumentTypeError(f"must look like k=randint(3,30), got {word!r}")
        found[name] = distribution
    return found


def read_written(flag: Any, value: Any, place: str) -> Any:
    """Return a value of a data file as read by a `Flag`; `place` begins error messages.

    A repeatable flag reads each item of a list.
    """
    if value is None and flag.default is None:
        return None
    try:
        if not flag.repeat:
            return flag.type(format_value(value))
        return list(map(flag.type, read_list(value)))
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{place} {error}") from None


def read_list(value: Any) -> list[str]:
    """Return the items of a list of a data file, or a single value, as typed on a command line."""
    if not isinstance(value, list | tuple):
        value = [value]
    return list(map(format_value, value))
