"""Mean and standard deviation of the members of each cluster, updated with every row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from interreplay.storage.running_moments import RunningMoments


class ClusterMoments(RunningMoments):
    """`RunningMoments` of clusters; results are cached until a cluster changes.

    Args:
        dims: Length D of a vector.
        dtype: Dtype of vectors and of the returned moments.
    """

    def __init__(self, dims: int, dtype: Any = np.float32):
        super().__init__(dims, 0)
        self._moments = np.zeros((0, 2, dims), np.dtype(dtype))
        self._changed: set[int] = set()  # clusters with outdated results

    def start_around(self, middle: np.ndarray) -> None:
        """Sum around `middle` ``(D,)`` in groups that are empty."""
        self.origin[:] = middle

    def around(
        self, groups: np.ndarray, vectors: Callable[[], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return mean and deviation ``(n, D)`` of each of `groups` ``(n,)``, and whether the group has members."""
        return *self.mean_and_std(groups), self.counts.take(groups) > 0

    def grow(self, groups: int) -> None:
        self._moments = np.pad(self._moments, ((0, groups - len(self)), (0, 0), (0, 0)))
        super().grow(groups)

    def _sum(self, groups: Any, sign: int, counts: Any, sums: np.ndarray, squares: np.ndarray) -> None:
        super()._sum(groups, sign, counts, sums, squares)
        self._changed.update((groups,) if isinstance(groups, int) else groups.tolist())

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


class DiscreteMoments:
    """`ClusterMoments` of groups: the members of a cluster with equal discrete values in s, a and s'.

    A group begins with its first row and is dropped when its cluster is cleared.

    Args:
        dims: Length D of a vector.
        dtype: Dtype of vectors and of the returned moments.
        places: Positions of discrete values in a vector ``(c,)``.
    """

    def __init__(self, dims: int, dtype: Any, places: np.ndarray):
        self._sums = ClusterMoments(dims, dtype)
        self._places = places
        self._groups: dict[tuple[int, bytes], int] = {}
        self._free = [0]
        self._sums.grow(1)

    def grow(self, clusters: int) -> None:
        """Do nothing: groups are added as needed."""

    def start_around(self, middle: np.ndarray) -> None:
        """Do nothing: sums of a group are taken around its first row."""

    def add(self, rows: np.ndarray, clusters: np.ndarray) -> None:
        """Add `rows` ``(n, D)`` to their groups in `clusters` ``(n,)``."""
        keys = self._keys(rows, clusters)
        for key, row in zip(keys, rows, strict=True):
            if key not in self._groups:
                if not self._free:
                    room = len(self._sums)
                    self._sums.grow(2 * room + 1)
                    self._free = list(range(2 * room, room - 1, -1))
                self._groups[key] = self._free.pop()
                self._sums.origin[self._groups[key]] = row
        self._sums.add(rows, np.array([self._groups[key] for key in keys], np.int64))

    def remove(self, rows: np.ndarray, clusters: np.ndarray) -> None:
        """Remove `rows` ``(n, D)`` from their groups in `clusters` ``(n,)``."""
        self._sums.remove(rows, np.array([self._groups[key] for key in self._keys(rows, clusters)], np.int64))

    def clear(self, clusters: np.ndarray) -> None:
        """Drop the groups of `clusters` ``(c,)``."""
        dropped = set(clusters.tolist())
        groups = [self._groups.pop(key) for key in list(self._groups) if key[0] in dropped]
        self._sums.clear(np.array(groups, np.int64))
        self._free += groups

    def around(
        self, clusters: np.ndarray, vectors: Callable[[], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return mean and deviation ``(n, D)`` of the group of each row, and whether it has at least two members.

        Args:
            clusters: Clusters of the rows ``(n,)``.
            vectors: Returns the rows as vectors ``(n, D)``.
        """
        groups = np.array([self._groups.get(key, -1) for key in self._keys(vectors(), clusters)], np.int64)
        known = (groups >= 0) & (self._sums.counts.take(groups) > 1)
        return *self._sums.mean_and_std(groups), known

    def _keys(self, rows: np.ndarray, clusters: np.ndarray) -> list[tuple[int, bytes]]:
        values = np.rint(rows[:, self._places]).astype(np.int64)
        return [(cluster, row.tobytes()) for cluster, row in zip(clusters.tolist(), values, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Return the state; the sums share memory."""
        values = b"".join(values for _, values in self._groups)
        return self._sums.state_dict() | {
            "clusters": np.array([cluster for cluster, _ in self._groups], np.int64),
            "choices": np.frombuffer(values, np.int64).reshape(-1, len(self._places)),
            "numbers": np.array(list(self._groups.values()), np.int64),
            "free": np.array(self._free, np.int64),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._sums.load_state_dict(state)
        clusters = np.asarray(state["clusters"]).tolist()
        groups = np.asarray(state["numbers"]).tolist()
        values = [row.tobytes() for row in np.asarray(state["choices"])]
        self._groups = dict(zip(zip(clusters, values, strict=True), groups, strict=True))
        self._free = np.asarray(state["free"]).tolist()
