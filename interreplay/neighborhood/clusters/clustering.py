"""Clusters of everything stored, kept up to date while rows come and go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from torch import Tensor

from interreplay.neighborhood.clusters.choice_moments import ChoiceMoments
from interreplay.neighborhood.clusters.cluster_members import ClusterMembership
from interreplay.neighborhood.clusters.cluster_moments import ClusterMoments
from interreplay.neighborhood.clusters.minibatch_kmeans import MiniBatchKMeans
from interreplay.neighborhood.clusters.transition_vectors import feature_vectors
from interreplay.neighborhood.clusters.view_moments import ViewMoments, known_as, parts
from interreplay.storage.read_views import ReadView
from interreplay.storage.ring import Storage

BATCH = 4096  # rows of one step of mini-batch k-means
DRAWN = 16  # rows that centers learn from for each row added
LEARNED = 64  # and per center at most, in one refresh
LOOKED = 1 << 16  # rows that look for their nearest center again in one refresh
VIEWS = 8  # ways to read rows of which moments are kept at most

Reader = Callable[[Storage, np.ndarray], np.ndarray]
"""``(storage, slots (n,)) -> (n, D)``: rows as vectors."""


class Clustering:
    """A partition of the stored rows by mini-batch k-means in standardized z = [s; a].

    A row joins the cluster of its nearest center when it is stored and leaves it when it is overwritten. At a refresh
    the scale becomes that of what is stored now, centers take some steps on random rows (each weighs as much as its
    cluster has members, so that centers keep following), those that lost all members start again at rows far from any
    center, and clusters in turn, 65,536 rows at least, have their rows look for the nearest center again.

    Args:
        capacity: Number of slots.
        z: Where the d features of z lie in a vector.
        n_clusters: K; of fewer than 2K rows half their number.
        refresh_every: Added rows between refreshes; with fewer than four times as many stored, a quarter of these.
        read: Gives rows as vectors ``(n, D)``.
        make_sums: Makes what keeps the moments of vectors per cluster; None where none are asked for.
    """

    def __init__(
        self,
        capacity: int,
        z: slice,
        n_clusters: int,
        refresh_every: int,
        read: Reader,
        make_sums: Callable[[], ClusterMoments | ChoiceMoments] | None = None,
    ):
        self.capacity, self.z, self.read, self.make_sums = capacity, z, read, make_sums
        self.n_clusters, self.refresh_every = n_clusters, refresh_every
        self.centers, self.members = MiniBatchKMeans(z.stop - z.start), ClusterMembership(capacity)
        self.moments: dict[ReadView, ViewMoments] = {}
        self.gone: list[np.ndarray] = []  # z of the rows overwritten since the last refresh
        self.written = self.refreshed = self.turn = 0  # rows seen, rows seen at the last refresh, next cluster

    @property
    def count(self) -> int:
        return min(self.written, self.capacity)

    # -- rows come and go -------------------------------------------------------------------------

    def leave(self, storage: Storage, slots: Tensor) -> None:
        """Take out the rows in `slots` ``(n,)``, which are about to be overwritten."""
        leaving = slots.numpy(force=True)
        clusters, vectors = self.members.cluster[leaving], self.read(storage, leaving)
        self.members.remove(leaving)
        self.gone.append(vectors[:, self.z])
        for moments in self.moments.values():
            moments.remove(storage, leaving, clusters, vectors)

    def add(self, storage: Storage, slots: Tensor) -> None:
        """Take in the newest rows of `storage`, in `slots` ``(n,)``, which nothing is known of any more.

        Raises:
            RuntimeError: When rows lay there that have not left.
        """
        added, first = slots.numpy(force=True), self.written == 0
        if self.members.cluster[added[0]] >= 0:
            raise RuntimeError("rows were overwritten that had not left; call evict before each add")
        vectors = self.read(storage, added)
        self.written = storage.written
        if first:
            self.centers.scale.center(vectors[0, self.z])
        due = self.written - self.refreshed >= min(self.refresh_every, max(1, self.count // 4))
        if due:
            self._refresh(storage, everything=self._much_is_gone())
        self._join(added, vectors, due)
        for moments in self.moments.values():
            moments.join(storage, added, self.members.cluster, vectors)

    def _much_is_gone(self) -> bool:
        """Return whether so many rows were overwritten since the last refresh that all should be looked at."""
        return sum(map(len, self.gone)) > min(2 * self.refresh_every, self.refreshed, self.capacity)

    def _join(self, slots: np.ndarray, vectors: np.ndarray, rebuild: bool) -> None:
        """Put rows into the clusters of their nearest centers."""
        clusters = self.centers.nearest(vectors[:, self.z])
        if rebuild:
            self.members.cluster[slots] = clusters
            self.members.build(len(self.centers))
        else:
            self.members.insert(slots, clusters)

    def _vectors(self, storage: Storage, slots: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield slots and vectors, some at a time."""
        for part in parts(slots):
            yield part, self.read(storage, part)

    def moments_of(self, storage: Storage, view: ReadView) -> ClusterMoments | ChoiceMoments:
        """Return the moments of the clusters as `view` reads rows; all rows are read when it is a new one.

        They follow what is stored from then on, for the views asked for last; those never asked for go.
        """
        view = known_as(view)
        if view not in self.moments:
            self.moments = {known: one for known, one in list(self.moments.items())[1 - VIEWS :] if one.asked}
            self.follow(view).begin(storage, self.members.cluster, len(self.centers))
        found = self.moments[view] = self.moments.pop(view)  # the last in order
        found.asked = True
        return found.sums

    def follow(self, view: ReadView) -> ViewMoments:
        """Keep moments of what `view` reads from now on."""
        assert self.make_sums is not None
        made = self.moments[known_as(view)] = ViewMoments(known_as(view), self.capacity, self.make_sums())
        return made

    # -- refresh ----------------------------------------------------------------------------------

    def _refresh(self, storage: Storage, everything: bool) -> None:
        """Move the centers; `_join` puts the lists in order afterwards.

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
        for moments in self.moments.values():
            moments.sums.grow(count)
        self._look_again(storage, split, everything)

    def _rescale(self, storage: Storage, everything: bool) -> None:
        """Let the scale be that of what is stored now: what came and went since the last refresh changes it."""
        scale, came = self.centers.scale, np.arange(self.count)
        if everything:
            scale.restart()
        else:
            came = np.arange(self.refreshed, self.written) % self.capacity
            if self.gone:
                scale.remove(np.concatenate(self.gone))
        for _, vectors in self._vectors(storage, came):
            scale.add(vectors[:, self.z])
        self.gone = []
        scale.freeze()
        self.centers.rescale()

    def _seed(self, storage: Storage, empty: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Start the centers `empty` at random rows; returns the clusters that these rows are in."""
        if not len(empty):
            return empty
        rows = rng.choice(self.count, min(self.count, max(BATCH, 2 * len(empty))), replace=False)
        chosen = rows[self.centers.seed(empty, feature_vectors(storage, rows), rng)]
        home = self.members.cluster[chosen]
        return np.unique(home[home >= 0])

    def _look_again(self, storage: Storage, split: np.ndarray, everything: bool) -> None:
        """Let the rows of clusters `split` and of those next in turn look for their nearest centers."""
        lists = len(self.members.size)
        turn = (self.turn + np.arange(lists)) % lists
        enough = int(np.searchsorted(np.cumsum(self.members.size[turn]), LOOKED)) + 1
        taken = lists if everything else min(enough, lists)
        self.turn = (self.turn + taken) % lists
        clusters = np.union1d(turn[:taken], split)
        for moments in self.moments.values():
            moments.sums.clear(clusters)
        for part, vectors in self._vectors(storage, self.members.of(clusters)):
            nearest = self.centers.nearest(vectors[:, self.z])
            self.members.cluster[part] = nearest
            for moments in self.moments.values():
                moments.add(storage, part, nearest, vectors)

    # -- state ------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return everything; large arrays share memory."""
        state: dict[str, Any] = {name: getattr(self, name) for name in ("written", "refreshed", "turn")}
        state |= {"centers": self.centers.state_dict(), "members": self.members.state_dict()}
        gone = np.concatenate(self.gone) if self.gone else np.empty((0, self.z.stop - self.z.start), np.float32)
        return state | {"gone": gone, "moments": [moments.state_dict() for moments in self.moments.values()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        for name in ("written", "refreshed", "turn"):
            setattr(self, name, int(state[name]))
        self.centers.load_state_dict(state["centers"])
        self.members.load_state_dict(state["members"])
        self.gone = [np.array(state["gone"])] if len(state["gone"]) else []
        for saved in state["moments"]:
            assert self.make_sums is not None
            made = ViewMoments.of_state(saved, self.capacity, self.make_sums())
            self.moments[made.view] = made
