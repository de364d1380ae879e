"""The moments of clusters as one read view reads the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from interreplay.neighborhood.clusters.moments import ClusterMoments, DiscreteMoments
from interreplay.storage.read_views import OneStep, ReadView, read_view
from interreplay.storage.ring import Storage

CHUNK = 1 << 14  # rows read at a time
MAX_WAITING = 4096  # waiting rows; the oldest ones beyond that never mature


class MatureRows:
    """Rows whose n-step transitions are final: n − 1 rows have followed, or the episode has ended.

    Args:
        capacity: Number of slots.
        view: How rows are read.
    """

    def __init__(self, capacity: int, view: ReadView):
        self.view = view
        self.slots = np.zeros(capacity, bool)  # whether each slot's row is mature
        self.waiting = np.empty(0, np.int64)

    def update(self, storage: Storage, added: np.ndarray) -> np.ndarray:
        """Return the slots of rows that have just matured, after rows were added in slots `added` ``(n,)``."""
        self.slots[added] = False
        waiting = np.concatenate([self.waiting[~np.isin(self.waiting, added)], added])
        mature = self.view.mature(storage, torch.from_numpy(waiting).to(storage.device)).numpy(force=True)
        self.waiting = waiting[~mature][-MAX_WAITING:]
        self.slots[waiting[mature]] = True
        return waiting[mature]

    def state_dict(self) -> dict[str, Any]:
        return {"slots": self.slots, "waiting": self.waiting}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.slots = np.array(state["slots"], bool)
        self.waiting = np.array(state["waiting"], np.int64)


class ViewMoments:
    """Means and deviations of [s; a; r; s'] per cluster, over the mature rows.

    Args:
        view: How rows are read.
        capacity: Number of slots.
        sums: Empty moments of the clusters.
    """

    def __init__(self, view: ReadView, capacity: int, sums: ClusterMoments | DiscreteMoments):
        self.view = view
        self.used = False
        self.sums = sums
        self.mature = MatureRows(capacity, view) if view.n_step > 1 else None

    def begin(self, storage: Storage, clusters: np.ndarray, count: int) -> None:
        """Add everything stored, in `count` clusters; `clusters` ``(capacity,)`` are those of all slots."""
        self.sums.grow(count)
        slots = np.arange(storage.written - len(storage), storage.written) % storage.capacity
        if self.mature is not None:
            self.mature.update(storage, slots)
        for number, chunk in enumerate(chunks(slots)):
            if number == 0:
                self.sums.start_around(self.view.vectors(storage, chunk).mean(0, dtype=np.float64))
            self.add(storage, chunk, clusters[chunk])

    def observe(self, storage: Storage, added: np.ndarray, clusters: np.ndarray, vectors: np.ndarray) -> None:
        """Add new rows, or rows that matured through them.

        Args:
            storage: The storage.
            added: Slots of the new rows ``(n,)``.
            clusters: Clusters of all slots ``(capacity,)``.
            vectors: Single steps of the new rows ``(n, D)``.
        """
        if self.mature is None:
            self.sums.add(vectors, clusters[added])
            return
        for chunk in chunks(self.mature.update(storage, added)):
            self.sums.add(self.view.vectors(storage, chunk), clusters[chunk])

    def add(self, storage: Storage, slots: np.ndarray, clusters: np.ndarray, vectors: np.ndarray | None = None) -> None:
        """Add the mature rows in `slots` ``(n,)`` to `clusters` ``(n,)``; `vectors` are their single steps if known."""
        slots, clusters, vectors = self._mature(storage, slots, clusters, vectors)
        if len(slots):
            self.sums.add(vectors, clusters)

    def remove(self, storage: Storage, slots: np.ndarray, clusters: np.ndarray, vectors: np.ndarray) -> None:
        """Remove the mature rows in `slots`; the arguments are those of `add`."""
        slots, clusters, vectors = self._mature(storage, slots, clusters, vectors)
        if len(slots):
            self.sums.remove(vectors, clusters)

    def _mature(
        self, storage: Storage, slots: np.ndarray, clusters: np.ndarray, vectors: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return slots, clusters and vectors of the mature rows."""
        if self.mature is None:
            return slots, clusters, self.view.vectors(storage, slots) if vectors is None else vectors
        mature = self.mature.slots[slots]
        slots = slots[mature]
        return slots, clusters[mature], self.view.vectors(storage, slots) if len(slots) else np.empty((0, 0))

    def state_dict(self) -> dict[str, Any]:
        """Return the state; large arrays share memory."""
        state = {"n_step": self.view.n_step, "gamma": self.view.gamma, "sums": self.sums.state_dict()}
        if self.mature is not None:
            state["mature"] = self.mature.state_dict()
        return state

    @classmethod
    def from_state(cls, state: dict[str, Any], capacity: int, sums: ClusterMoments | DiscreteMoments) -> ViewMoments:
        """Return the moments of a state."""
        made = cls(vector_view(read_view(int(state["n_step"]), float(state["gamma"]))), capacity, sums)
        made.used = True
        made.sums.load_state_dict(state["sums"])
        if made.mature is not None:
            made.mature.load_state_dict(state["mature"])
        return made


def vector_view(view: ReadView) -> ReadView:
    """Return one view for all views that return the same vectors: γ does not matter to single steps."""
    return view if view.n_step > 1 else OneStep()


def chunks(slots: np.ndarray) -> Iterator[np.ndarray]:
    """Yield `slots` ``(n,)`` in chunks."""
    for start in range(0, len(slots), CHUNK):
        yield slots[start : start + CHUNK]
