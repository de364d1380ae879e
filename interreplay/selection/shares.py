"""Shares of each batch, rounded to whole rows, and sources with shares."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from interreplay.storage.state_copies import copy_arrays

Share = float | Sequence[float]
"""Share of each batch, or its values at the start and at the end of the run."""


class Shares:
    """Divides batches among several sources: exact over many batches, and within one row in each batch.

    Remainders are carried over to the next batches, as in Bresenham's line algorithm: a share of .1 of 256 rows gives
    25 or 26 rows per batch, and within one row of 25.6·k after k batches.

    Args:
        names: Names of the sources, in order.
        shares: Shares by name, 0 to 1. ``(start, end)`` moves linearly from one to the other over the run. Sources
            that are missing divide the remainder equally.

    Raises:
        ValueError: If a share is invalid, a name is unknown, or the shares do not add up to 1.
    """

    def __init__(self, names: Sequence[str], shares: Mapping[str, Share] | None = None):
        self.names = tuple(names)
        ends = np.full((len(names), 2), np.nan)
        for name, share in (shares or {}).items():
            if name not in names:
                raise ValueError(f"there is no source {name!r}; expected shares of {', '.join(names)}")
            ends[self.names.index(name)] = _ends(name, share)
        missing = np.isnan(ends[:, 0])
        left = 1.0 - np.nansum(ends, axis=0)
        if (left < -1e-9).any() or (not missing.any() and (left > 1e-9).any()):
            raise ValueError(f"the shares are {dict(shares or {})}; expected them to add up to 1")
        ends[missing] = np.maximum(left, 0.0) / max(missing.sum(), 1)
        self._ends = dict(zip(self.names, ends.tolist(), strict=True))
        self._carried = dict.fromkeys(self.names, 0.0)
        self.progress = 0.0

    @property
    def current(self) -> dict[str, float]:
        """The current shares by name."""
        shares = {}
        for name, (start, end) in self._ends.items():
            shares[name] = start + (end - start) * self.progress
        return shares

    def least(self, name: str) -> float:
        """Return the smallest share of a source over the run."""
        return min(self._ends[name])

    def anneal(self, progress: float) -> None:
        """Move to `progress`, the completed share of the run, from 0 to 1."""
        self.progress = min(max(float(progress), 0.0), 1.0)

    def counts(self, size: int, available: Collection[str]) -> dict[str, int]:
        """Divide the next batch.

        Args:
            size: Number of rows n.
            available: Sources that have rows. They receive the shares of all others in proportion.

        Returns:
            Number of rows per source, without zeros; the sum is n.

        Raises:
            ValueError: If no source with a share is available.
        """
        counts, self._carried = self.divide(size, available)
        return counts

    def divide(self, size: int, available: Collection[str]) -> tuple[dict[str, int], dict[str, float]]:
        """Return the next result of `counts` and the remainders to carry over, without changing the state."""
        shares = {}
        for name, share in self.current.items():
            if share > 0 and name in available:
                shares[name] = share
        total = sum(shares.values())  # numpy takes ten times as long for a few numbers
        if not total > 0:
            raise ValueError("no source with a share has rows to draw from; expected at least one")
        rows = {}
        left: dict[str, float] = {}
        for name, share in shares.items():
            due = self._carried[name] + size * (share / total)
            rows[name] = max(math.floor(due), 0)
            left[name] = due - rows[name]
        missing = size - sum(rows.values())
        for _ in range(missing):
            name = max(rows, key=left.__getitem__)
            rows[name] += 1
            left[name] -= 1
        for _ in range(-missing):  # more than one row is carried over
            name = min((name for name in rows if rows[name]), key=left.__getitem__)
            rows[name] -= 1
            left[name] += 1
        return {name: count for name, count in rows.items() if count}, self._carried | left

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume."""
        return {"owed": list(self._carried.values()), "progress": self.progress}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state returned by `state_dict`."""
        self._carried = dict(zip(self.names, map(float, state["owed"]), strict=True))
        self.progress = float(state["progress"])


def _ends(name: str, share: Share) -> tuple[float, float]:
    """Return a share at the start and at the end of the run."""
    given: Any = share
    if isinstance(share, Real):
        given = (share, share)
    if (
        not isinstance(given, Sequence)
        or len(given) != 2
        or not all(isinstance(end, Real) and 0 <= float(end) <= 1 for end in given)
    ):
        raise ValueError(f"the share of {name} is {share!r}; expected 0 to 1, or two such numbers (start, end)")
    return float(given[0]), float(given[1])


class SharedSources:
    """Several sources with shares of each batch.

    Attributes:
        sources: Sources by name, in order: each a `RowSource` or each an `UnrollSource`.
        shares: Divides the batches.
    """

    sources: dict[str, Any]
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
        current = self.shares.current
        parts = ", ".join(f"{current[name]:.3g} {name}: {source!r}" for name, source in self.sources.items())
        return f"{type(self).__name__}({parts})"
