"""The moments of clusters as one read view gives them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from interreplay.neighborhood.clusters.choice_moments import ChoiceMoments
from interreplay.neighborhood.clusters.cluster_moments import ClusterMoments
from interreplay.neighborhood.clusters.mature_rows import MatureRows
from interreplay.storage.read_views import OneStep, ReadView, read_view
from interreplay.storage.ring import Storage

PART = 1 << 14  # rows read at a time


class ViewMoments:
    """Means and deviations of [s; a; r; s'] per cluster, of the rows whose outcome is what it will stay.

    Args:
        view: How rows are read.
        capacity: Number of slots.
        sums: Of the clusters, still empty.
    """

    def __init__(self, view: ReadView, capacity: int, sums: ClusterMoments | ChoiceMoments):
        self.view, self.asked, self.sums = view, False, sums
        self.mature = MatureRows(capacity, view) if view.n_step > 1 else None

    def begin(self, storage: Storage, clusters: np.ndarray, count: int) -> None:
        """Take in everything stored, in `count` clusters: those of each slot are `clusters` ``(capacity,)``."""
        self.sums.grow(count)
        oldest = storage.written - len(storage)
        slots = np.arange(oldest, storage.written) % storage.capacity
        if self.mature is not None:
            self.mature(storage, slots)
        for number, part in enumerate(parts(slots)):
            if number == 0:
                self.sums.start_around(self.view.vectors(storage, part).mean(0, dtype=np.float64))
            self.add(storage, part, clusters[part])

    def join(self, storage: Storage, added: np.ndarray, clusters: np.ndarray, vectors: np.ndarray) -> None:
        """Take note of rows that were `added` ``(n,)``.

        Args:
            storage: Where they lie.
            added: Their slots.
            clusters: Of each slot ``(capacity,)``.
            vectors: Their single steps ``(n, D)``.
        """
        if self.mature is None:
            self.sums.add(vectors, clusters[added])
            return
        for part in parts(self.mature(storage, added)):
            self.sums.add(self.view.vectors(storage, part), clusters[part])

    def add(self, storage: Storage, slots: np.ndarray, clusters: np.ndarray, vectors: np.ndarray | None = None) -> None:
        """Count the rows in `slots` ``(n,)``, of `clusters` ``(n,)``; their single steps are `vectors`, if known."""
        slots, clusters, vectors = self._known(storage, slots, clusters, vectors)
        if len(slots):
            self.sums.add(vectors, clusters)

    def remove(
        self, storage: Storage, slots: np.ndarray, clusters: np.ndarray, vectors: np.ndarray | None = None
    ) -> None:
        """Count the rows in `slots` no more; arguments as in `add`."""
        slots, clusters, vectors = self._known(storage, slots, clusters, vectors)
        if len(slots):
            self.sums.remove(vectors, clusters)

    def _known(
        self, storage: Storage, slots: np.ndarray, clusters: np.ndarray, vectors: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return slots, clusters and vectors of the rows that are counted."""
        if self.mature is None:
            return slots, clusters, self.view.vectors(storage, slots) if vectors is None else vectors
        known = self.mature.slots[slots]
        slots, clusters = slots[known], clusters[known]
        return slots, clusters, self.view.vectors(storage, slots) if len(slots) else np.empty((0, 0))

    def state_dict(self) -> dict[str, Any]:
        """Return everything; large arrays share memory."""
        state = {"n_step": self.view.n_step, "gamma": self.view.gamma, "sums": self.sums.state_dict()}
        return state | ({"mature": self.mature.state_dict()} if self.mature is not None else {})

    @classmethod
    def of_state(cls, state: dict[str, Any], capacity: int, sums: ClusterMoments | ChoiceMoments) -> ViewMoments:
        """Return the moments of a state."""
        made = cls(known_as(read_view(int(state["n_step"]), float(state["gamma"]))), capacity, sums)
        made.asked = True
        made.sums.load_state_dict(state["sums"])
        if made.mature is not None:
            made.mature.load_state_dict(state["mature"])
        return made


def known_as(view: ReadView) -> ReadView:
    """Return the view that gives the same vectors for all of its kind: γ does not matter to single steps."""
    return view if view.n_step > 1 else OneStep()


def parts(slots: np.ndarray) -> Iterator[np.ndarray]:
    """Yield `slots` ``(n,)``, some at a time."""
    for start in range(0, len(slots), PART):
        yield slots[start : start + PART]
