"""Flags that name parts of a replay buffer: those of this package, and a user's own as ``module:Class``."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterable, Mapping
from typing import Any

from interreplay.buffer.catalogue import OF_PARTS
from interreplay.buffer.own_parts import part_class
from interreplay.errors import UsageError
from interreplay.experiments.flags.reading import PART, Flag
from interreplay.experiments.flags.values import assignment, split


def named_part(text: str) -> dict[str, Any]:
    """Read ``module:Class name=value ...``, or the mapping that it means, into ``{"type": "module:Class", ...}``."""
    if text.lstrip().startswith("{"):
        return _of_mapping(text)
    name, *words = split(text) or [""]
    if not name or "=" in name:
        raise argparse.ArgumentTypeError(f"must begin with a name such as my_parts:Recent, got {text!r}")
    return {"type": name} | dict(assignment(word) for word in words)


named_part.metavar = PART  # type: ignore[attr-defined]


def _of_mapping(text: str) -> dict[str, Any]:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = None
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        return value
    if isinstance(value, dict) and len(value) == 1:
        ((name, arguments),) = value.items()
        if isinstance(name, str) and isinstance(arguments, dict | None):
            return {"type": name} | (arguments or {})
    raise argparse.ArgumentTypeError(f"must be a name and its arguments, got {text}")


def _flag(name: str, what: str) -> Flag:
    described = f"{what}: module:Class of your own, or one of this package's, with its arguments"
    return Flag(name, named_part, None, described, many=True, scope="method")


PART_FLAGS = (
    _flag("selector", "what draws anchors"),
    _flag("neighborhood", "what they may be mixed with"),
    _flag("synthesizer", "what makes the batch"),
)
PARTS = tuple(flag.name for flag in PART_FLAGS)


def part_arguments(given: Mapping[str, Any], name: str, parameters: Iterable[str]) -> dict[str, Any]:
    """Return the arguments of a replay method that flags about parts mean.

    Args:
        given: Flags and values.
        name: Of the replay method.
        parameters: What it takes.

    Raises:
        UsageError: It takes no such part, there is no such part, or flags contradict each other.
    """
    parameters, found = list(parameters), dict[str, Any]()
    for flag in PARTS:
        if flag not in given:
            continue
        argument = "blend" if flag == "synthesizer" and flag not in parameters else flag
        if argument not in parameters:
            raise UsageError(
                f"--{flag} {given[flag]['type']}: {name} has its own {flag}; --buffer {OF_PARTS}, or no --buffer, puts "
                "parts together"
            )
        part_class(argument, given[flag])
        found[argument] = given[flag]
    if "selector" in found and given.get("prioritized_replay"):
        raise UsageError(f"--selector {given['selector']['type']} contradicts --prioritized_replay; give one of them")
    return found


def readable(value: Any) -> Any:
    """Return an argument of a replay method as lines and tables show it: a part as ``Recent(share=0.2)``."""
    if not isinstance(value, Mapping) or "type" not in value:
        return value
    arguments = ",".join(f"{name}={item}" for name, item in value.items() if name != "type")
    name = short(str(value["type"]))
    return f"{name}({arguments})" if arguments else name


def short(name: str) -> str:
    """Return a buffer's or a part's name without its module."""
    return name.rpartition(":")[2]
