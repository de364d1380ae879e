"""Clusters of all stored rows, updated as rows are added and overwritten, and vectors [s; a; r; s'] of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.neighborhood.kmeans import move_centers
from interreplay.neighborhood.membership import ClusterMembership
from interreplay.storage.columns import Columns, discrete_columns, get_part_name, num_features, observation_columns
from interreplay.storage.ring import Storage
from interreplay.storage.running_moments import RunningMoments, RunningStandardizer
from interreplay.transitions import Transitions, join_parts, unchecked


class ClusterMoments(RunningMoments):
    """`RunningMoments` of clusters; results are cached until a cluster changes.

    Args:
        dtype: Dtype of vectors and of the returned moments.
    """

    def __init__(self, dims: int, dtype: Any = np.float32):
        super().__init__(dims, 0)
        self._moments = np.zeros((0, 2, dims), np.dtype(dtype))
        self._changed: set[int] = set()  # clusters with outdated results

    def grow(self, groups: int) -> None:
        self._moments = np.pad(self._moments, ((0, groups - len(self)), (0, 0), (0, 0)))
        super().grow(groups)

    def _sum(self, groups: Any, sign: int, counts: Any, sums: np.ndarray, squares: np.ndarray) -> None:
        super()._sum(groups, sign, counts, sums, squares)
        self._changed.update(np.atleast_1d(groups).tolist())

    def clear(self, groups: np.ndarray) -> None:
        super().clear(groups)
        self._changed.update(groups.tolist())

    def mean_and_std(self, groups: np.ndarray | int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation ``(n, D)`` of each of `groups` ``(n,)``, in the dtype of the vectors."""
        if self._changed:
            changed = np.fromiter(self._changed, np.int64)
            self._moments[changed] = np.stack(super().mean_and_std(changed), axis=1)
            self._changed.clear()
        mean, std = self._moments.take(groups, axis=0).transpose(1, 0, 2)
        return mean, std

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._moments = np.zeros((len(self.counts), *self._moments.shape[1:]), self._moments.dtype)
        self._changed = set(range(len(self.counts)))


BATCH = 4096  # rows per step of mini-batch k-means
ROWS_PER_ADDED_ROW = 16  # rows that the steps of a refresh use, per added row
ROWS_PER_CENTER = 64  # and at most per center
REASSIGNED = 1 << 16  # rows that are reassigned in one refresh
CHUNK = 1 << 14  # rows read at a time
BLOCK = 1024  # rows compared with all centers at a time; their distances stay in the cache

Reader = Callable[[Storage, np.ndarray], np.ndarray]
"""``(storage, slots (n,)) -> (n, D)``: rows as vectors."""


def feature_vectors(storage: Storage, slots: np.ndarray) -> np.ndarray:
    """Return z = [s; a] of the rows in `slots` ``(n,)``, float32 ``(n, d)``."""
    return storage.features(torch.from_numpy(slots)).numpy()


class Clustering:
    """A partition of the stored rows by mini-batch k-means in standardized z = [s; a].

    A row joins the cluster of its nearest center when it is stored and leaves it when it is overwritten. A refresh

    1. updates the scale to the stored rows;
    2. places centers without members on rows far from the other centers;
    3. moves the centers by some steps on random rows, each center weighted by its number of members, so that centers
       keep following the rows;
    4. reassigns the rows of clusters in turn, at least 65,536 of them, to their nearest centers.

    Args:
        z: Position of the d features z in a vector.
        n_clusters: Number of clusters K; half the number of rows if fewer than 2K are stored.
        refresh_every: Added rows between refreshes, at most a quarter of the stored rows.
        read: Returns rows as vectors ``(n, D)``.
        moments: Moments of vectors per cluster, still empty; None if no moments are needed.

    Attributes:
        centers: Centers ``(K, d)`` in the units of the rows; they are compared in standardized units.
    """

    def __init__(
        self,
        capacity: int,
        z: slice,
        n_clusters: int,
        refresh_every: int,
        read: Reader,
        moments: ClusterMoments | None = None,
    ):
        self.capacity = capacity
        self.z = z
        self.n_clusters = n_clusters
        self.refresh_every = refresh_every
        self.read = read
        self.moments = moments
        self.centers = np.zeros((0, z.stop - z.start))
        self.scale = RunningStandardizer(z.stop - z.start)
        self.use_centers(self.centers)
        self.members = ClusterMembership(capacity)
        self.gone: list[np.ndarray] = []  # z of rows overwritten since the last refresh
        self.written = 0  # rows seen
        self.refreshed = 0  # rows seen at the last refresh
        self.turn = 0  # next cluster to reassign

    @property
    def count(self) -> int:
        return min(self.written, self.capacity)

    # -- Rows are added and removed ----------------------------------------------------------------

    def remove(self, storage: Storage, slots: Tensor) -> None:
        """Remove the rows in `slots` ``(n,)``, which are about to be overwritten."""
        leaving = slots.numpy()
        clusters = self.members.cluster[leaving]
        vectors = self.read(storage, leaving)
        self.members.remove(leaving)
        self.gone.append(vectors[:, self.z])
        if self.moments is not None:
            self.moments.remove(vectors, clusters)

    def add(self, storage: Storage, slots: Tensor) -> None:
        """Add the newest rows of `storage`, in `slots` ``(n,)``."""
        added = slots.numpy()
        vectors = self.read(storage, added)
        if self.written == 0:
            self.scale.center(vectors[0, self.z])
        self.written = storage.written
        refresh = self.written - self.refreshed >= min(self.refresh_every, max(1, self.count // 4))
        if refresh:
            self._refresh(storage)
        clusters = self.nearest(vectors[:, self.z])
        if refresh:
            self.members.cluster[added] = clusters
            self.members.build(len(self.centers))
        else:
            self.members.insert(added, clusters)
        if self.moments is not None:
            self.moments.add(vectors, self.members.cluster[added])

    # -- Centers -----------------------------------------------------------------------------------

    def use_centers(self, centers: np.ndarray) -> None:
        """Compare rows with `centers` ``(K, d)`` in the current scale."""
        self.centers = centers
        scaled = self.scale.apply(centers)
        self._slopes = (-2.0 * scaled).T.copy()
        self._squares = (scaled * scaled).sum(1)  # |c|² − 2 z·c orders centers by their distance to z

    def nearest(self, rows: np.ndarray) -> np.ndarray:
        """Return the index of the nearest center of each of `rows` ``(n, d)``, int64 ``(n,)``."""
        if len(rows) > BLOCK:
            return np.concatenate([self.nearest(rows[i : i + BLOCK]) for i in range(0, len(rows), BLOCK)])
        distances = self.scale.apply(rows) @ self._slopes
        distances += self._squares
        return distances.argmin(1)

    def _draw_batches(self, storage: Storage, rng: np.random.Generator, rows: int) -> Iterator[np.ndarray]:
        """Yield the normalized features of random batches, at least `rows` rows in total."""
        size = min(BATCH, self.count)
        for _ in range(math.ceil(rows / size)):
            features = feature_vectors(storage, rng.integers(0, self.count, size))
            yield (features - self.scale.mean) * self.scale.weights

    def _seed(self, indices: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Place centers `indices` ``(m,)`` on `rows` ``(n, d)``, n ≥ m, drawn in proportion to squared distance.

        As in k-means++ (Arthur & Vassilvitskii 2007), distances are those to the nearest of the existing centers.
        Return the indices of the chosen rows ``(m,)``, without repetition.
        """
        squared = np.ones(len(rows))
        if len(self.centers):
            difference = (rows - self.centers[self.nearest(rows)]) * self.scale.weights
            squared = np.einsum("ij,ij->i", difference, difference)
        order = np.log(np.maximum(squared, 1e-12)) + rng.gumbel(size=len(rows))  # draws without replacement
        chosen = np.argsort(-order, kind="stable")[: len(indices)]
        centers = np.pad(self.centers, ((0, max(0, int(indices[-1]) + 1 - len(self.centers))), (0, 0)))
        centers[indices] = rows[chosen]
        self.use_centers(centers)
        return chosen

    # -- Refresh -----------------------------------------------------------------------------------

    def _refresh(self, storage: Storage) -> None:
        """Refresh scale, centers and assignments; `add` rebuilds the lists of members afterwards.

        The newest rows are in the storage, but in no cluster yet.
        """
        overwritten = sum(map(len, self.gone))
        everything = overwritten > min(2 * self.refresh_every, self.refreshed, self.capacity)
        rng = np.random.default_rng([1, self.written])
        self._rescale(storage, everything)
        count = max(1, min(self.n_clusters, self.count // 2))
        weights = np.pad(self.members.size, (0, count - len(self.members.size))).astype(np.float64)
        empty = np.flatnonzero(weights == 0)
        split = empty
        if len(empty):
            rows = rng.choice(self.count, min(self.count, max(BATCH, 2 * len(empty))), replace=False)
            chosen = rows[self._seed(empty, feature_vectors(storage, rows), rng)]
            home = self.members.cluster[chosen]
            split = np.unique(home[home >= 0])
            weights[empty] = 1.0
        rows_used = min(ROWS_PER_ADDED_ROW * (self.written - self.refreshed), ROWS_PER_CENTER * count)
        batches = self._draw_batches(storage, rng, rows_used)
        scaled = (self.centers - self.scale.mean) * self.scale.weights
        self.use_centers(self.scale.invert(move_centers(scaled, weights, batches)))
        self.refreshed = self.written
        if self.moments is not None:
            self.moments.grow(count)
        self._reassign(storage, split, everything)

    def _rescale(self, storage: Storage, everything: bool) -> None:
        """Update the scale from all stored rows, or from the rows added and removed since the last refresh."""
        if everything:
            self.scale.restart()
            added = np.arange(self.count)
        else:
            added = np.arange(max(self.refreshed, self.written - self.capacity), self.written) % self.capacity
            if self.gone:
                self.scale.remove(np.concatenate(self.gone))
        for chunk in chunks(added):
            self.scale.add(self.read(storage, chunk)[:, self.z])
        self.gone = []
        self.scale.freeze()
        self.use_centers(self.centers)

    def _reassign(self, storage: Storage, split: np.ndarray, everything: bool) -> None:
        """Reassign the rows of all clusters, or of clusters `split` and the next ones in turn."""
        lists = len(self.members.size)
        turn = (self.turn + np.arange(lists)) % lists
        taken = lists
        if not everything:
            enough = int(np.searchsorted(np.cumsum(self.members.size[turn]), REASSIGNED)) + 1
            taken = min(enough, lists)
        self.turn = (self.turn + taken) % lists
        clusters = np.union1d(turn[:taken], split)
        if self.moments is not None:
            self.moments.clear(clusters)
        for chunk in chunks(self.members.get_members(clusters)):
            vectors = self.read(storage, chunk)
            nearest = self.nearest(vectors[:, self.z])
            self.members.cluster[chunk] = nearest
            if self.moments is not None:
                self.moments.add(vectors, nearest)

    # -- State -------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume bit-exactly; large arrays share memory.

        Mini-batch k-means has no state beyond this: it starts from the centers and the cluster sizes, and the random
        rows of a refresh follow from `written`.
        """
        state = {
            "written": self.written,
            "refreshed": self.refreshed,
            "turn": self.turn,
            "centers": {"centers": self.centers, "scale": self.scale.state_dict()},
            "members": self.members.state_dict(),
            "gone": np.concatenate([np.empty((0, self.z.stop - self.z.start), np.float32), *self.gone]),
        }
        if self.moments is not None:
            state["moments"] = self.moments.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in ("written", "refreshed", "turn"):
            setattr(self, name, int(state[name]))
        self.scale.load_state_dict(state["centers"]["scale"])
        self.use_centers(np.array(state["centers"]["centers"], np.float64))
        self.members.load_state_dict(state["members"])
        self.gone = [np.array(state["gone"])]
        if self.moments is not None:
            self.moments.load_state_dict(state["moments"])


def chunks(slots: np.ndarray) -> Iterator[np.ndarray]:
    """Yield `slots` ``(n,)`` in chunks."""
    for start in range(0, len(slots), CHUNK):
        yield slots[start : start + CHUNK]


def lead(columns: Columns) -> int:
    """Return the position of z in a vector: the size of the achieved goal, which is part of s but not of z."""
    return action_range(columns).stop - num_features(columns)


def discrete_places(columns: Columns) -> list[int]:
    """Return the positions of discrete values of s, a and s' in a vector, in ascending order."""
    observed = list(observation_columns(columns))
    discrete = discrete_columns(columns)
    places: list[int] = []
    start = 0
    for name in (*observed, "actions", "rewards", *observed):
        stop = start + math.prod(columns[name][0])
        if name in discrete:
            places += range(start, stop)
        start = stop
    return places


def action_range(columns: Columns) -> slice:
    """Return the position of the action in a vector."""
    start = sum(math.prod(shape) for shape, _ in observation_columns(columns).values())
    return slice(start, start + math.prod(columns["actions"][0]))


def length(columns: Columns) -> int:
    """Return the length D of a vector."""
    actions = action_range(columns)
    return actions.start + actions.stop + 1


def as_transitions(vectors: Tensor, columns: Columns) -> Transitions:
    """Return transitions ``(n, ...)`` in the stored shapes and dtypes from vectors ``(n, D)``; none terminates."""
    start = 0

    def take(name: str) -> Tensor:
        nonlocal start
        shape, dtype = columns[name]
        part = vectors[:, start : start + math.prod(shape)]
        start += math.prod(shape)
        if not dtype.is_floating_point:
            part = part.round()
        return part.to(dtype).reshape(len(vectors), *shape)

    observed = list(observation_columns(columns))
    never = torch.zeros(len(vectors), dtype=torch.bool)
    return unchecked(  # in the order of the vector
        obs=join_parts({get_part_name(name): take(name) for name in observed}),
        actions=take("actions"),
        rewards=take("rewards"),
        next_obs=join_parts({get_part_name(name): take(name) for name in observed}),
        terminated=never,
        truncated=never.clone(),
    )
