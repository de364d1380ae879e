"""Sources with shares of each batch: the common part of mixes of rows and mixes of unrolls."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from interreplay.selection.shares import Shares
from interreplay.storage.state_copies import copy_arrays

OneSource = TypeVar("OneSource", bound=Any)
"""A `RowSource` or an `UnrollSource`."""


class SharedSources(Generic[OneSource]):
    """Several sources with shares of each batch.

    Attributes:
        sources: Sources by name, in order.
        shares: Divides the batches.
    """

    sources: dict[str, OneSource]
    shares: Shares

    def anneal(self, progress: float) -> None:
        """Move schedules to `progress`, the completed share of the run, from 0 to 1."""
        self.shares.anneal(progress)
        for source in self.sources.values():
            source.anneal(progress)

    def statistics(self) -> dict[str, float]:
        """Return the statistics of all sources, prefixed with their names."""
        found: dict[str, float] = {}
        for name, source in self.sources.items():
            found |= {f"{name}/{key}": value for key, value in source.statistics().items()}
        return found

    def state_view(self) -> dict[str, Any]:
        """Return `state_dict` with arrays that share memory with this object."""
        sources = {name: source.state_view() for name, source in self.sources.items()}
        return {"sources": sources, "shares": self.shares.state_dict()}

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume."""
        return copy_arrays(self.state_view())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state; the next batch equals the one that the saved mix would have drawn."""
        if list(state["sources"]) != list(self.sources):
            raise ValueError(f"the state has the sources {list(state['sources'])}; expected {list(self.sources)}")
        self.shares.load_state_dict(state["shares"])
        for name, source in self.sources.items():
            source.load_state_dict(state["sources"][name])

    def __repr__(self) -> str:
        """Return the sources with their current shares."""
        current = self.shares.current
        parts = ", ".join(f"{current[name]:.3g} {name}: {source!r}" for name, source in self.sources.items())
        return f"{type(self).__name__}({parts})"
