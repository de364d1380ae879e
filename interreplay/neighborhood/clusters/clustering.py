"""Clusters of everything stored, kept up to date while rows come and go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from interreplay.neighborhood.clusters.cluster_members import Members
from interreplay.neighborhood.clusters.cluster_moments import ClusterSums
from interreplay.neighborhood.clusters.minibatch_kmeans import Centers
from interreplay.neighborhood.clusters.overwritten_rows import Oldest, Reader
from interreplay.neighborhood.clusters.settled_rows import Settled
from interreplay.neighborhood.clusters.transition_vectors import feature_vectors
from interreplay.storage.read_views import ReadView

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage

BATCH = 4096  # rows of one step of mini-batch k-means
DRAWN = 16  # rows that centres learn from for each row added
LEARNED = 64  # and per centre at most, in one refresh
LOOKED = 1 << 16  # rows that look for their nearest centre again in one refresh
PART = 1 << 14  # rows read at a time


class Clustering:
    """A partition of the stored rows by mini-batch k-means in standardised z = [s; a].

    A row joins the cluster of its nearest centre when it is stored and leaves it when it is overwritten. At a refresh
    the scale becomes that of what is stored now, centres take some steps on random rows (each weighs as much as its
    cluster has members, so that centres keep following), those that lost all members start again at rows far from any
    centre, and clusters in turn, 65,536 rows at least, have their rows look for the nearest centre again.

    Args:
        capacity: Number of slots.
        z: Where the d features of z lie in a vector.
        n_clusters: K; of fewer than 2K rows half their number.
        refresh_every: Added rows between refreshes; with fewer than four times as many stored, a quarter of these.
        read: Gives rows as vectors ``(n, D)``.
        sums: To keep the moments of vectors per cluster with, or None.
        view: How rows are read; moments are those of rows whose outcome is known.
    """

    def __init__(
        self,
        capacity: int,
        z: slice,
        n_clusters: int,
        refresh_every: int,
        read: Reader,
        sums: ClusterSums | None = None,
        view: ReadView | None = None,
    ):
        self.capacity, self.z, self.read, self.sums = capacity, z, read, sums
        self.n_clusters, self.refresh_every = n_clusters, refresh_every
        self.centers, self.members = Centers(z.stop - z.start), Members(capacity)
        self.oldest = Oldest(capacity, 2 * refresh_every)  # enough, when no more than refresh_every come at once
        self.settled = Settled(capacity, view) if sums is not None and view is not None and view.n_step > 1 else None
        self.written = self.refreshed = self.turn = 0  # rows seen, rows seen at the last refresh, next cluster

    @property
    def count(self) -> int:
        return min(self.written, self.capacity)

    # -- rows come and go -------------------------------------------------------------------------

    def add(self, storage: Storage, slots: Tensor) -> None:
        """Take in the newest rows of `storage`, in `slots` ``(n,)``; what lay there before is gone."""
        added, since = slots.numpy(force=True), self.written
        self.written = storage.written
        vectors = self.read(storage, added)
        if since == 0:
            self.centers.scale.center(vectors[0, self.z])
        gone = self.oldest.gone(since, self.written)
        self._leave(added[max(0, self.capacity - since) :], gone)
        due = self.written - self.refreshed >= min(self.refresh_every, max(1, self.count // 4))
        if due:
            self._refresh(storage, everything=gone is None)
        self._join(added, vectors, due)
        if self.settled is not None:
            self._settle(storage, added)
        if due:
            self.oldest.copy(storage, self.read)

    def _leave(self, slots: np.ndarray, gone: np.ndarray | None) -> None:
        """Take out the rows that lay in `slots` ``(n,)``, `gone` ``(n, D)``; where that is None all is counted anew."""
        clusters = self.members.cluster[slots]
        self.members.remove(slots)
        if gone is not None:
            self._note(slots, clusters, gone, -1)

    def _join(self, slots: np.ndarray, vectors: np.ndarray, rebuild: bool) -> None:
        """Put rows into the clusters of their nearest centres."""
        clusters = self.centers.nearest(vectors[:, self.z])
        if rebuild:
            self.members.cluster[slots] = clusters
            self.members.build(len(self.centers))
        else:
            self.members.insert(slots, clusters)
        if self.settled is None:
            self._note(slots, clusters, vectors)

    def _settle(self, storage: Storage, added: np.ndarray) -> None:
        assert self.settled is not None
        slots = self.settled(storage, added)
        for part, vectors in self._vectors(storage, slots):
            self._note(part, self.members.cluster[part], vectors)
            self.oldest.put(storage.write_numbers(torch.from_numpy(part)).numpy(), vectors)

    def _note(self, slots: np.ndarray, clusters: np.ndarray, vectors: np.ndarray, sign: int = 1) -> None:
        """Let the moments know of rows that joined clusters, or with `sign` −1 left."""
        if self.sums is None:
            return
        if self.settled is not None:
            known = self.settled.slots[slots]
            clusters, vectors = clusters[known], vectors[known]
        if len(clusters):
            self.sums.add(clusters, vectors, sign)

    def _vectors(self, storage: Storage, slots: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Slots and vectors, some at a time."""
        for start in range(0, len(slots), PART):
            part = slots[start : start + PART]
            yield part, self.read(storage, part)

    # -- refresh ----------------------------------------------------------------------------------

    def _refresh(self, storage: Storage, everything: bool) -> None:
        """Move the centres; `_join` puts the lists in order afterwards.

        Args:
            storage: The newest rows are in it, but in no cluster yet.
            everything: Count all rows anew for scale and moments.
        """
        rng = np.random.default_rng([1, self.written])
        self._rescale(storage, everything)
        count = max(1, min(self.n_clusters, self.count // 2))
        weights = np.pad(self.members.size, (0, count - len(self.members.size))).astype(np.float64)
        empty = np.flatnonzero(weights == 0)
        split = self._seed(storage, empty, rng)
        weights[empty] = 1.0
        size = min(BATCH, self.count)
        rows = min(DRAWN * (self.written - self.refreshed), LEARNED * count)
        for _ in range(-(-rows // size)):
            self.centers.step(feature_vectors(storage, rng.integers(0, self.count, size)), weights)
        self.refreshed = self.written
        if self.sums is not None:
            self.sums.grow(count)
        self._look_again(storage, split, everything)

    def _rescale(self, storage: Storage, everything: bool) -> None:
        """Let the scale be that of what is stored now: what came and went since the last refresh changes it."""
        scale, came = self.centers.scale, np.arange(self.count)
        if everything:
            scale.restart()
        else:
            came = np.arange(self.refreshed, self.written) % self.capacity
            gone = self.oldest.gone(self.refreshed, self.written)
            assert gone is not None
            if len(gone):
                scale.add(gone[:, self.z], -1)
        for _, vectors in self._vectors(storage, came):
            scale.add(vectors[:, self.z])
        scale.freeze()
        self.centers.rescale()

    def _seed(self, storage: Storage, empty: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Start the centres `empty` at random rows; returns the clusters that these rows are in."""
        if not len(empty):
            return empty
        rows = rng.choice(self.count, min(self.count, max(BATCH, 2 * len(empty))), replace=False)
        chosen = rows[self.centers.seed(empty, feature_vectors(storage, rows), rng)]
        home = self.members.cluster[chosen]
        return np.unique(home[home >= 0])

    def _look_again(self, storage: Storage, split: np.ndarray, everything: bool) -> None:
        """Let the rows of clusters `split` and of those next in turn look for their nearest centres."""
        lists = len(self.members.size)
        turn = (self.turn + np.arange(lists)) % lists
        enough = int(np.searchsorted(np.cumsum(self.members.size[turn]), LOOKED)) + 1
        taken = lists if everything else min(enough, lists)
        self.turn = (self.turn + taken) % lists
        clusters = np.union1d(turn[:taken], split)
        if self.sums is not None:
            self.sums.reset(clusters)
        for part, vectors in self._vectors(storage, self.members.of(clusters)):
            nearest = self.centers.nearest(vectors[:, self.z])
            self.members.cluster[part] = nearest
            self._note(part, nearest, vectors)

    # -- state ------------------------------------------------------------------------------------

    def _parts(self) -> dict[str, Any]:
        parts = {name: getattr(self, name) for name in ("centers", "members", "oldest", "sums", "settled")}
        return {name: part for name, part in parts.items() if part is not None}

    def state_dict(self) -> dict[str, Any]:
        """Everything; large arrays share memory."""
        state = {name: getattr(self, name) for name in ("written", "refreshed", "turn")}
        return state | {name: part.state_dict() for name, part in self._parts().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in ("written", "refreshed", "turn"):
            setattr(self, name, int(state[name]))
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
