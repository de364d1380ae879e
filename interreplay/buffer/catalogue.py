"""Creates replay buffers from a name, a class or a factory."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from interreplay import neighborhood, selection, synthesis
from interreplay.buffer import ReplayBuffer
from interreplay.buffer.device_nmer import DeviceNMER
from interreplay.buffer.sample_weight_decay import SWD
from interreplay.environments.own_modules import check_arguments as check_names
from interreplay.environments.own_modules import import_user_class, locate_error
from interreplay.errors import UsageError, accepted_names, exits_as_errors
from interreplay.part import Part

Recipe = Callable[..., ReplayBuffer]
Kind = str | Recipe | ReplayBuffer


OF_PARTS = "ReplayBuffer"
"""The name of a buffer composed of given parts, which is not a method of the catalog."""
OWN_METHODS: dict[str, Recipe] = {"DeviceNMER": DeviceNMER, "SWD": SWD}
"""Methods in this package by name, which the catalog does not list (docs/decisions/0031-residual-critics.md)."""
NAME = "replay_buffers"
HOME = Path(__file__).resolve().parents[2] / NAME
"""Folder of the catalog, installed next to this package."""


def methods() -> dict[str, Recipe]:
    """Return the replay methods of the catalog and `OWN_METHODS` by name.

    `replay_buffers` builds on this package. This lookup on demand is the only upward import.

    Raises:
        UsageError: If another package named `replay_buffers` precedes ours on the import path.
    """
    module = sys.modules.get(NAME)
    spec = importlib.util.find_spec(NAME) if module is None else module.__spec__
    file = spec.origin if spec else None
    if HOME.is_dir() and file is not None and Path(file).resolve().parent != HOME:
        raise UsageError(
            f"{file} hides the replay methods of interreplay; expected to import {HOME}: rename the file or folder, or "
            "remove its parent from PYTHONPATH"
        )
    catalog = importlib.import_module(NAME)
    return {name: getattr(catalog, name) for name in catalog.__all__} | OWN_METHODS


def resolve(kind: Kind) -> Recipe:
    """Return the recipe for a name of `methods`, ``module:Class``, a class or a factory.

    Raises:
        ValueError: If the name is unknown, with the most similar valid name, or `kind` is something else.
    """
    if isinstance(kind, str):
        if ":" in kind:
            return import_user_class(kind, ReplayBuffer, "buffer")
        if kind == OF_PARTS:
            return ReplayBuffer
        catalog = methods()
        if kind not in catalog:
            raise ValueError(f"there is no replay buffer {kind!r}; {accepted_names(kind, catalog)}")
        return catalog[kind]
    if callable(kind):
        return kind
    raise ValueError(f"the replay buffer is {kind!r}; expected a name, a class or a factory")


def check_arguments(recipe: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Reject arguments that `recipe` does not accept."""
    check_names(getattr(recipe, "__name__", str(recipe)), recipe, list(arguments))


def make_buffer(kind: Kind, defaults: Mapping[str, Any] | None = None, **arguments: Any) -> ReplayBuffer:
    """Create a replay buffer from a name, a class or a factory; an existing buffer is returned unchanged.

    Args:
        kind: A name, a class, a factory or a buffer.
        defaults: Arguments to use if the recipe accepts them and they are not given. A recipe with
            ``**arguments`` accepts the arguments of `ReplayBuffer`.
        **arguments: Arguments of the recipe. Parts can be mappings, see `make_parts`.

    Raises:
        ValueError: If the name or an argument is unknown.
    """
    if isinstance(kind, ReplayBuffer):
        if arguments:
            raise ValueError(f"an existing buffer takes no arguments; got {sorted(arguments)}")
        return kind
    recipe = resolve(kind)
    check_arguments(recipe, arguments)
    taken = dict(inspect.signature(recipe).parameters)
    if any(p.kind is p.VAR_KEYWORD for p in taken.values()):  # passed on to `ReplayBuffer`
        taken |= inspect.signature(ReplayBuffer).parameters
    accepted = {name: value for name, value in (defaults or {}).items() if name in taken}
    mappings = {name: value for name, value in arguments.items() if isinstance(value, Mapping)}
    return recipe(**accepted | arguments | make_parts(mappings))


PACKAGES: dict[str, tuple[ModuleType, type]] = {
    "selector": (selection, selection.Selector),
    "inner": (selection, selection.Selector),
    "neighborhood": (neighborhood, neighborhood.Neighborhood),
    "partners": (neighborhood, neighborhood.Neighborhood),
    "synthesizer": (synthesis, synthesis.Synthesizer),
    "blend": (synthesis, synthesis.Synthesizer),
}
"""Arguments of buffers and parts that are parts: the package of built-in parts and the base class."""


def make_parts(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of a buffer or a part with parts in place of names of parts and of mappings.

    A mapping contains the type and the arguments of a part, such as ``{"type": "mine:Recent", "share": .2}``.
    """
    made = dict(arguments)
    for name, value in arguments.items():
        if name in PACKAGES and isinstance(value, str):
            made[name] = make_part(name, {"type": value})
        elif name in PACKAGES and isinstance(value, Mapping) and "type" in value:
            made[name] = make_part(name, value)
    return made


def make_part(argument: str, value: Mapping[str, Any]) -> Part:
    """Create a part from a mapping of its type and its arguments, which can be parts: mappings or names."""
    kind = part_class(argument, value)
    try:
        with exits_as_errors():
            return kind(**make_parts({name: item for name, item in value.items() if name != "type"}))
    except (TypeError, ValueError) as error:
        raise UsageError(f"{argument} {value['type']}: {' '.join(str(error).split())}") from error
    except Exception as error:
        raise UsageError(f"{argument} {value['type']} cannot be created: {locate_error(error)}") from error


def part_class(argument: str, value: Mapping[str, Any]) -> Any:
    """Return the class of a part after checking its arguments' names."""
    name = str(value["type"])
    package, base = PACKAGES[argument]
    if ":" in name:
        kind = import_user_class(name, base, argument)
    else:
        parts = {}
        for each in package.__all__:
            part = getattr(package, each)
            if inspect.isclass(part) and issubclass(part, base) and not inspect.isabstract(part) and part is not base:
                parts[each] = part
        if name not in parts:
            raise UsageError(
                f"{argument} {name!r}: {accepted_names(name, parts)}, or one of your own such as my_module:{name}"
            )
        kind = parts[name]
    check_names(f"{argument} {name}", kind, [each for each in value if each != "type"])
    return kind
