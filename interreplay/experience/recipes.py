"""Sources by name: the replay methods, and what is composed of several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from interreplay.buffer import catalogue
from interreplay.experience.mix import Mix
from interreplay.experience.model_based import ModelBased
from interreplay.experience.offline import Offline
from interreplay.experience.source import RowSource

COMPOSED: dict[str, Callable[..., RowSource]] = {"Mix": Mix, "ModelBased": ModelBased, "Offline": Offline}
"""Names that are no replay methods, but put some together."""


def methods_and_models() -> dict[str, Callable[..., Any]]:
    """Return what a command may name: the replay methods, and what adds a model to one of them."""
    return catalogue.methods() | {"ModelBased": ModelBased}


def resolve_source(kind: Any) -> Callable[..., RowSource]:
    """Return the recipe that `kind` means: a name, or a class or factory as it is.

    Raises:
        ValueError: When the name is unknown, with the nearest valid one, or `kind` is something else.
    """
    return COMPOSED[kind] if isinstance(kind, str) and kind in COMPOSED else catalogue.resolve(kind)


def as_settings(kind: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``{"type": kind, **arguments}`` for a configuration; of a `Mix` the recipe that it was made by.

    Raises:
        ValueError: When the name or an argument is unknown, with the nearest valid one.
    """
    if isinstance(kind, Mix):
        return {**kind.recipe, **arguments}
    catalogue.check_arguments(resolve_source(kind), arguments)
    return {"type": kind, **arguments}


def make_source(kind: Any, defaults: Mapping[str, Any] | None = None, **arguments: Any) -> RowSource:
    """Return a source as `make_buffer` returns a buffer, of the names in `COMPOSED` too.

    Raises:
        ValueError: When the name or an argument is unknown.
    """
    kind = resolve_source(kind) if isinstance(kind, str) else kind
    return catalogue.make_buffer(kind, defaults, **arguments)
