"""Clusters of everything stored, kept up to date while rows come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from interreplay.neighborhood.cluster_sums import ClusterSums
from interreplay.neighborhood.members import Members
from interreplay.neighborhood.minibatch import Centers
from interreplay.neighborhood.oldest import Oldest, Reader
from interreplay.neighborhood.settled import Settled
from interreplay.neighborhood.tally import Tally

if TYPE_CHECKING:
    from interreplay.storage import Storage

BATCH = 4096  # rows of one step of mini-batch k-means
DRAWN = 16  # rows that centres learn from for each row added
LEARNED = 64  # and per centre at most, in one refresh
LOOKED = 1 << 16  # rows that look for their nearest centre again in one refresh
LOOP = 1024  # more rows at once are put into lists by sorting all


class Clustering:
    """A partition of the stored rows by mini-batch k-means in standardised z = [s; a].

    A row joins the cluster of its nearest centre when it is stored and leaves it when it is overwritten. At a refresh
    the scale becomes that of what is stored now, centres take some steps on random rows (each weighs as much as its
    cluster has members, so that centres keep following), those that lost all members start again at rows far from any
    centre, and clusters in turn, 65,536 rows at least, have their rows look for the nearest centre again.

    Args:
        capacity: Number of slots.
        dims: Number of features d in z.
        n_clusters: K; of fewer than 2K rows half their number.
        refresh_every: Added rows between refreshes; with fewer than four times as many stored, a quarter of these.
        read: Gives rows as vectors ``(n, D)``, of which the first d numbers are z.
        sums: To keep the moments of vectors per cluster with, or None.
        n_step: Of the storage; moments are those of rows whose n-step outcome is known.
    """

    def __init__(
        self,
        capacity: int,
        dims: int,
        n_clusters: int,
        refresh_every: int,
        read: Reader,
        sums: ClusterSums | None = None,
        n_step: int = 1,
    ):
        self.capacity, self.dims, self.n_step, self.read = capacity, dims, n_step, read
        self.n_clusters, self.refresh_every = n_clusters, refresh_every
        self.centers, self.members, self.oldest = Centers(dims), Members(capacity), Oldest(read)
        self.tally = Tally(self.centers.scale)
        self.sums = sums
        self.settled = Settled(capacity) if sums is not None and n_step > 1 else None
        self.written = self.refreshed = self.turn = 0  # rows seen, rows seen at the last refresh, next cluster

    @property
    def count(self) -> int:
        return min(self.written, self.capacity)

    # -- rows come and go -------------------------------------------------------------------------

    def add(self, storage: Storage, slots: Tensor) -> None:
        """Take in the newest rows of `storage`, in `slots` ``(n,)``; what lay there before is gone."""
        added, since = slots.numpy(force=True), self.written
        self.written = storage.written
        vectors = self.read(storage, slots)
        if since == 0:
            self.centers.scale.center(vectors[0, : self.dims])
        self._leave(storage, added, self.oldest.gone(storage, since))
        self.tally.add(vectors[:, : self.dims])
        due = self.written - self.refreshed >= min(self.refresh_every, max(1, self.count // 4))
        if due:
            self._refresh(storage)
        self._join(added, vectors, due)
        if self.settled is not None:
            self._settle(storage, added)
        self.oldest.follow(storage)

    def _leave(self, storage: Storage, slots: np.ndarray, gone: np.ndarray | None) -> None:
        """Take the rows out that lay in `slots` ``(n,)``; they were `gone` ``(m, D)``, None where that is not known."""
        left = slots[self.members.cluster[slots] >= 0]
        clusters = self.members.cluster[left]
        if len(left) > LOOP:
            self.members.cluster[left] = -1
            self.members.build(len(self.centers))
        else:
            for slot in left.tolist():
                self.members.remove(slot)
        if gone is None:
            self._recount(storage)
        elif len(left):
            self.tally.remove(gone[:, : self.dims])
            self._note(left, clusters, gone, -1)

    def _note(self, slots: np.ndarray, clusters: np.ndarray, vectors: np.ndarray, sign: int = 1) -> None:
        """Let the moments know of rows that joined clusters, or with `sign` −1 left."""
        if self.sums is None:
            return
        if self.settled is not None:
            known = self.settled.slots[slots]
            clusters, vectors = clusters[known], vectors[known]
        if len(clusters):
            self.sums.add(clusters, vectors, sign)

    def _recount(self, storage: Storage) -> None:
        """Scale and moments of all rows that are in a cluster, from the beginning."""
        self.tally.restart()
        if self.sums is not None:
            self.sums.reset(np.arange(len(self.centers)))
        slots = np.flatnonzero(self.members.cluster >= 0)
        for start in range(0, len(slots), LOOKED):
            part = slots[start : start + LOOKED]
            vectors = self._vectors(storage, part)
            self.tally.add(vectors[:, : self.dims])
            self._note(part, self.members.cluster[part], vectors)

    def _join(self, slots: np.ndarray, vectors: np.ndarray, rebuild: bool) -> None:
        """Put rows into the clusters of their nearest centres."""
        clusters = self.centers.nearest(vectors[:, : self.dims])
        if rebuild or len(slots) > LOOP:
            self.members.cluster[slots] = clusters
            self.members.build(len(self.centers))
        else:
            for slot, cluster in zip(slots.tolist(), clusters.tolist(), strict=True):
                self.members.insert(slot, cluster)
        if self.settled is None:
            self._note(slots, clusters, vectors)

    def _settle(self, storage: Storage, added: np.ndarray) -> None:
        assert self.settled is not None
        slots = self.settled(storage, added)
        if not len(slots):
            return
        vectors = self._vectors(storage, slots)
        self._note(slots, self.members.cluster[slots], vectors)
        self.oldest.put(storage.write_numbers(torch.from_numpy(slots)).numpy(), vectors)

    def _vectors(self, storage: Storage, slots: np.ndarray) -> np.ndarray:
        return self.read(storage, torch.from_numpy(slots).to(storage.device))

    # -- refresh ----------------------------------------------------------------------------------

    def _refresh(self, storage: Storage) -> None:
        """Move the centres; `_join` puts the lists in order afterwards."""
        rng = np.random.default_rng([1, self.written])
        self.tally.flush()
        self.centers.scale.freeze()
        self.centers.rescale()
        members = self.members.size
        count = max(1, min(self.n_clusters, self.count // 2))
        empty = np.flatnonzero(np.pad(members[: len(self.centers)], (0, count - len(self.centers))) == 0)
        weights = np.pad(members, (0, max(0, count - len(members))))[:count].astype(np.float64)
        split = self._seed(storage, empty, rng)
        weights[empty] = 1.0
        rows = min(DRAWN * (self.written - self.refreshed), LEARNED * count)
        for _ in range(-(-rows // min(BATCH, self.count))):
            batch = rng.integers(0, self.count, min(BATCH, self.count))
            self.centers.step(self._features(storage, batch), weights)
        self.refreshed = self.written
        if self.sums is not None:
            self.sums.grow(count)
        self._look_again(storage, split, len(members))

    def _seed(self, storage: Storage, empty: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Start the centres `empty` at random rows; returns the clusters that these rows are in."""
        if not len(empty):
            return empty
        rows = rng.choice(self.count, min(self.count, max(BATCH, 2 * len(empty))), replace=False)
        chosen = rows[self.centers.seed(empty, self._features(storage, rows), rng)]
        home = self.members.cluster[chosen]
        return np.unique(home[home >= 0])

    def _look_again(self, storage: Storage, split: np.ndarray, lists: int) -> None:
        """Let the rows of clusters `split` and of those next in turn look for their nearest centres."""
        turn = (self.turn + np.arange(lists)) % lists
        taken = min(int(np.searchsorted(np.cumsum(self.members.size[turn]), LOOKED)) + 1, lists)
        self.turn = (self.turn + taken) % max(lists, len(self.centers))
        clusters = np.union1d(turn[:taken], split)
        slots = self.members.of(clusters)
        if self.sums is not None:
            self.sums.reset(clusters)
        for start in range(0, len(slots), LOOKED // 4):
            part = slots[start : start + LOOKED // 4]
            vectors = self._vectors(storage, part)
            nearest = self.centers.nearest(vectors[:, : self.dims])
            self.members.cluster[part] = nearest
            self._note(part, nearest, vectors)

    def _features(self, storage: Storage, slots: np.ndarray) -> np.ndarray:
        return storage.features(torch.from_numpy(slots).to(storage.device)).numpy(force=True)

    # -- state ------------------------------------------------------------------------------------

    def _kept(self) -> dict[str, Any]:
        parts = {name: getattr(self, name) for name in ("centers", "oldest", "sums", "tally")}
        return {name: part for name, part in parts.items() if part is not None}

    def state_dict(self) -> dict[str, Any]:
        """Everything; large arrays share memory."""
        state = {name: part.state_dict() for name, part in self._kept().items()}
        state |= {name: getattr(self, name) for name in ("written", "refreshed", "turn")}
        state["members"] = self.members.state_dict(self.count)
        return state | ({} if self.settled is None else {"settled": self.settled.state_dict(self.count)})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, part in self._kept().items():
            part.load_state_dict(state[name])
        for name in ("written", "refreshed", "turn"):
            setattr(self, name, int(state[name]))
        self.members.load_state_dict(state["members"])
        if self.settled is not None:
            self.settled.load_state_dict(state["settled"])
