"""Sources by name: replay methods and compositions of several sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from interreplay.buffer import catalogue
from interreplay.experience.mix import Mix
from interreplay.experience.model_based import ModelBased
from interreplay.experience.offline import Offline
from interreplay.experience.source import RowSource

COMPOSED: dict[str, Callable[..., RowSource]] = {"Mix": Mix, "ModelBased": ModelBased, "Offline": Offline}
"""Sources that are composed of replay methods."""


def resolve_source(kind: Any) -> Callable[..., RowSource]:
    """Return the class or factory of a name; a class or factory is returned as it is."""
    return COMPOSED[kind] if isinstance(kind, str) and kind in COMPOSED else catalogue.resolve(kind)


def as_settings(kind: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``{"type": kind, **arguments}`` for a configuration; for a `Mix`, the arguments it was created with."""
    if isinstance(kind, Mix):
        return {**kind.recipe, **arguments}
    catalogue.check_arguments(resolve_source(kind), arguments)
    return {"type": kind, **arguments}


def make_source(kind: Any, defaults: Mapping[str, Any] | None = None, **arguments: Any) -> RowSource:
    """Return a source, as `make_buffer` does, but also accept the names in `COMPOSED`."""
    kind = resolve_source(kind) if isinstance(kind, str) else kind
    return catalogue.make_buffer(kind, defaults, **arguments)
