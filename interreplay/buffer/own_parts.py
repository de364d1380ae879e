"""Parts of a buffer by name: those of this package as they are called, those of a user's own as ``module:Class``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from interreplay import neighborhood, selection, synthesis
from interreplay.environments.own_modules import check_arguments, described, own_class
from interreplay.errors import UsageError, accepted_names, exits_as_errors
from interreplay.part import Part

ROOMS: dict[str, tuple[ModuleType, type]] = {
    "selector": (selection, selection.Selector),
    "neighborhood": (neighborhood, neighborhood.Neighborhood),
    "synthesizer": (synthesis, synthesis.Synthesizer),
    "blend": (synthesis, synthesis.Synthesizer),
}
"""Arguments of buffers that are parts, where those of this package are, and what they are derived from."""


def make_parts(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of a buffer with parts in place of mappings such as ``{"type": "mine:Recent", "share": .2}``."""
    made = {name: make_part(name, value) for name, value in arguments.items() if is_named_part(name, value)}
    return {**arguments, **made}


def is_named_part(argument: str, value: Any) -> bool:
    """Return whether an argument of a buffer says a part by its name."""
    return argument in ROOMS and isinstance(value, Mapping) and "type" in value


def make_part(argument: str, value: Mapping[str, Any]) -> Part:
    """Return the part that a mapping of its name and its arguments means.

    Raises:
        UsageError: There is no such part, or it cannot be made so.
    """
    kind = part_class(argument, value)
    try:
        with exits_as_errors():
            return kind(**{name: item for name, item in value.items() if name != "type"})
    except (TypeError, ValueError) as error:
        raise UsageError(f"{argument} {value['type']}: {' '.join(str(error).split())}") from error
    except Exception as error:
        raise UsageError(f"{argument} {value['type']} cannot be made: {described(error)}") from error


def part_class(argument: str, value: Mapping[str, Any]) -> Any:
    """Return the class of a part, after checking that it takes its arguments.

    Raises:
        UsageError: There is no such class, or it takes no such argument.
    """
    name, (room, base) = str(value["type"]), ROOMS[argument]
    if ":" in name:
        kind = own_class(name, base, argument)
    else:
        known = {each: getattr(room, each) for each in room.__all__}
        parts = {each: part for each, part in known.items() if _is_part(part, base)}
        if name not in parts:
            raise UsageError(
                f"{argument} {name!r}: {accepted_names(name, parts)}, or one of your own such as my_module:{name}"
            )
        kind = parts[name]
    check_arguments(f"{argument} {name}", kind, [each for each in value if each != "type"])
    return kind


def _is_part(value: Any, base: type) -> bool:
    return inspect.isclass(value) and issubclass(value, base) and not inspect.isabstract(value) and value is not base
