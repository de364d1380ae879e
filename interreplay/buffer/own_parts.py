"""Parts of a buffer by name: ours by class name, users' own as ``module:Class``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from interreplay import neighborhood, selection, synthesis
from interreplay.environments.own_modules import check_arguments, described, own_class
from interreplay.errors import UsageError, accepted_names, exits_as_errors
from interreplay.part import Part

PACKAGES: dict[str, tuple[ModuleType, type]] = {
    "selector": (selection, selection.Selector),
    "neighborhood": (neighborhood, neighborhood.Neighborhood),
    "synthesizer": (synthesis, synthesis.Synthesizer),
    "blend": (synthesis, synthesis.Synthesizer),
}
"""Arguments of buffers that are parts, with the package that contains ours and the base class."""


def make_parts(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a buffer's arguments with mappings such as ``{"type": "mine:Recent", "share": .2}`` replaced by parts."""
    made = dict(arguments)
    for name, value in arguments.items():
        if name in PACKAGES and isinstance(value, Mapping) and "type" in value:
            made[name] = make_part(name, value)
    return made


def make_part(argument: str, value: Mapping[str, Any]) -> Part:
    """Create a part from a mapping of its type and its arguments, which can be parts: mappings or names.

    Raises:
        UsageError: If the part is unknown or cannot be created.
    """
    kind = part_class(argument, value)
    try:
        with exits_as_errors():
            return kind(**_inner_parts({name: item for name, item in value.items() if name != "type"}))
    except (TypeError, ValueError) as error:
        raise UsageError(f"{argument} {value['type']}: {' '.join(str(error).split())}") from error
    except Exception as error:
        raise UsageError(f"{argument} {value['type']} cannot be created: {described(error)}") from error


def _inner_parts(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part's arguments with names and mappings of parts replaced by parts."""
    named = dict(arguments)
    for name, value in arguments.items():
        if name in PACKAGES and isinstance(value, str):
            named[name] = {"type": value}
    return make_parts(named)


def part_class(argument: str, value: Mapping[str, Any]) -> Any:
    """Return the class of a part after checking its arguments' names.

    Raises:
        UsageError: If the class or an argument is unknown.
    """
    name = str(value["type"])
    package, base = PACKAGES[argument]
    if ":" in name:
        kind = own_class(name, base, argument)
    else:
        found = {each: getattr(package, each) for each in package.__all__}
        parts = {each: kind for each, kind in found.items() if _is_part(kind, base)}
        if name not in parts:
            raise UsageError(
                f"{argument} {name!r}: {accepted_names(name, parts)}, or one of your own such as my_module:{name}"
            )
        kind = parts[name]
    check_arguments(f"{argument} {name}", kind, [each for each in value if each != "type"])
    return kind


def _is_part(value: Any, base: type) -> bool:
    return inspect.isclass(value) and issubclass(value, base) and not inspect.isabstract(value) and value is not base
