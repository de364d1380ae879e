"""Entries of a study's lists: names, names with arguments, and lists of them on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from interreplay.errors import UsageError


def entry(value: Any, kind: str) -> tuple[str, dict[str, Any]]:
    """Return a name and what belongs to it, from ``NMER``, ``"NMER{k: 10}"`` or ``{NMER: {k: 10}}``.

    Args:
        value: As YAML or the command line gave it.
        kind: What it names, for error messages.

    Raises:
        UsageError: It is none of these.
    """
    if isinstance(value, dict) and len(value) == 1:
        ((name, options),) = value.items()
        if isinstance(name, str) and isinstance(options, dict | None):
            return name, {str(key): item for key, item in (options or {}).items()}
    if isinstance(value, str) and value.strip():
        name, brace, rest = value.strip().partition("{")
        options = _mapping(brace + rest, value) if brace else {}
        return name.strip(), options
    raise UsageError(f"{kind} {value!r} is no entry; expected a name, 'NAME{{option: value}}' or {{NAME: {{...}}}}")


def _mapping(text: str, whole: str) -> dict[str, Any]:
    try:
        options = yaml.safe_load(text)
    except yaml.YAMLError:
        options = None
    if not isinstance(options, dict) or any(value is None and "null" not in text for value in options.values()):
        raise UsageError(f"{whole!r} cannot be read; expected something like 'NMER{{k: 10}}', a space after the colon")
    return options


def seeds_from(value: Any) -> list[int]:
    """Return seeds: a number n means 0 ... n - 1, a list is taken as it is.

    Raises:
        UsageError: It is neither.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return list(range(value))
    whole = isinstance(value, Sequence) and not isinstance(value, str)
    if whole and value and all(isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0 for seed in value):
        return list(value)
    raise UsageError(f"seeds {value!r}: expected a number of seeds such as 5, or a list such as [0, 1, 2]")


def as_seeds(words: Sequence[str]) -> int | list[int]:
    """Return seeds from a command line: ``5`` is a number of seeds, ``0,3`` is a list.

    Raises:
        UsageError: It is neither.
    """
    try:
        numbers = [int(word) for word in words]
    except ValueError:
        raise UsageError(
            f"--seeds {','.join(words)}: expected a number of seeds such as 5, or seeds such as 0,3"
        ) from None
    return numbers[0] if len(numbers) == 1 else numbers
