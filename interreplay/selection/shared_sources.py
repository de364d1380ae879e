"""Sources with shares of every batch: what mixes of rows and of unrolls have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

from interreplay.selection.shares import Shares
from interreplay.storage.state_copies import copy_arrays


class Source(Protocol):
    """What has a schedule, numbers that describe it, and a state."""

    def anneal(self, progress: float) -> None:
        """Move schedules to `progress`, the share of the run that is done, 0 to 1."""

    def statistics(self) -> Mapping[str, float]:
        """Return numbers that describe it."""
        ...

    def state_view(self) -> dict[str, Any]:
        """Return its state without copying."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""


OneSource = TypeVar("OneSource", bound=Source)


class SharedSources(Generic[OneSource]):
    """Several sources and the shares that they have of every batch.

    Attributes:
        sources: By name, in order.
        shares: How batches are divided.
    """

    sources: dict[str, OneSource]
    shares: Shares

    def anneal(self, progress: float) -> None:
        """Move schedules to `progress`, the share of the run that is done, 0 to 1."""
        self.shares.anneal(progress)
        for source in self.sources.values():
            source.anneal(progress)

    def statistics(self) -> dict[str, float]:
        """Return numbers that describe each source, under its name."""
        found = {name: source.statistics() for name, source in self.sources.items()}
        return {f"{name}/{key}": value for name, numbers in found.items() for key, value in numbers.items()}

    def state_view(self) -> dict[str, Any]:
        """Return `state_dict` without copying."""
        sources = {name: source.state_view() for name, source in self.sources.items()}
        return {"sources": sources, "shares": self.shares.state_dict()}

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on."""
        return copy_arrays(self.state_view())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state; the next batch is the one that the saved mix would have drawn.

        Raises:
            ValueError: When it is the state of other sources.
        """
        if list(state["sources"]) != list(self.sources):
            raise ValueError(f"the state is of the sources {list(state['sources'])}; expected {list(self.sources)}")
        self.shares.load_state_dict(state["shares"])
        for name, source in self.sources.items():
            source.load_state_dict(state["sources"][name])

    def __repr__(self) -> str:
        """Return the sources with their shares of now."""
        parts = ", ".join(
            f"{self.shares.current[name]:.3g} {name}: {source!r}" for name, source in self.sources.items()
        )
        return f"{type(self).__name__}({parts})"
