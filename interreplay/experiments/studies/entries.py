"""Entries of a study's lists: names, names with arguments, and seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from interreplay.errors import UsageError


def entry(value: Any, kind: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the options of ``NMER``, ``"NMER{k: 10}"`` or ``{NMER: {k: 10}}``.

    Args:
        value: The entry, from YAML or the command line.
        kind: What the entry names, for error messages.

    Raises:
        UsageError: The entry has another form.
    """
    if isinstance(value, dict) and len(value) == 1:
        ((name, options),) = value.items()
        if isinstance(name, str) and isinstance(options, dict | None):
            return name, {str(key): item for key, item in (options or {}).items()}
    if isinstance(value, str) and value.strip():
        name, brace, rest = value.strip().partition("{")
        options = _mapping(brace + rest, value) if brace else {}
        return name.strip(), options
    raise UsageError(
        f"{kind} {value!r} is not a valid entry; expected a name, 'NAME{{option: value}}' or {{NAME: {{...}}}}"
    )


def _mapping(text: str, whole: str) -> dict[str, Any]:
    try:
        options = yaml.safe_load(text)
    except yaml.YAMLError:
        options = None
    # YAML reads {k=10} as a key without a value.
    if not isinstance(options, dict) or (None in options.values() and "null" not in text):
        raise UsageError(f"{whole!r} cannot be read; expected something like 'NMER{{k: 10}}', a space after the colon")
    return options


def seeds_from(value: Any) -> list[int]:
    """Return a list of seeds: a number n means 0 ... n - 1, a list is returned unchanged.

    Raises:
        UsageError: The value is neither.
    """
    if type(value) is int and value > 0:
        return list(range(value))
    if isinstance(value, list | tuple) and value and all(type(seed) is int and seed >= 0 for seed in value):
        return list(value)
    raise UsageError(f"seeds {value!r}: expected a number of seeds such as 5, or a list such as [0, 1, 2]")


def as_seeds(words: Sequence[str]) -> int | list[int]:
    """Return seeds from the command line: ``5`` is a number of seeds, ``0,3`` is a list.

    Raises:
        UsageError: The words are neither.
    """
    try:
        numbers = [int(word) for word in words]
    except ValueError:
        message = "expected a number of seeds such as 5, or seeds such as 0,3"
        raise UsageError(f"--seeds {','.join(words)}: {message}") from None
    return numbers[0] if len(numbers) == 1 else numbers
