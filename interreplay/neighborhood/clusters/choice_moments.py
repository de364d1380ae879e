"""Mean and standard deviation of the members of each cluster that agree in their choices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from interreplay.neighborhood.clusters.cluster_moments import ClusterMoments


class ChoiceMoments:
    """`ClusterMoments` of groups: the rows of a cluster with equal choices, whole-number parts of s, a and s'.

    A group begins with its first row, and is forgotten when its cluster is cleared.

    Args:
        dims: Length D of a vector.
        dtype: Of vectors, and of the moments as they are returned.
        places: Where choices lie in a vector, ``(c,)``.
    """

    def __init__(self, dims: int, dtype: Any, places: np.ndarray):
        self._sums, self._places = ClusterMoments(dims, dtype), places
        self._groups: dict[tuple[int, bytes], int] = {}
        self._free = [0]
        self._sums.grow(1)

    def grow(self, clusters: int) -> None:
        """Have room for `clusters` clusters; groups begin by themselves."""

    def start_around(self, middle: np.ndarray) -> None:
        """Sums of a group are taken around its first row."""

    def add(self, rows: np.ndarray, clusters: np.ndarray) -> None:
        """Take `rows` ``(n, D)`` into the groups of their choices in `clusters` ``(n,)``."""
        keys = self._keys(rows, clusters)
        for key, row in zip(keys, rows, strict=True):
            if key not in self._groups:
                self._begin(key, row)
        self._sums.add(rows, self._numbers(keys))

    def remove(self, rows: np.ndarray, clusters: np.ndarray) -> None:
        """Take `rows` ``(n, D)`` out again of where they were added."""
        self._sums.remove(rows, self._numbers(self._keys(rows, clusters)))

    def clear(self, clusters: np.ndarray) -> None:
        """Forget the groups of `clusters` ``(c,)``."""
        left = set(clusters.tolist())
        numbers = [self._groups.pop(key) for key in list(self._groups) if key[0] in left]
        self._sums.clear(np.array(numbers, np.int64))
        self._free += numbers

    def around(
        self, clusters: np.ndarray, vectors: Callable[[], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return mean and deviation ``(n, D)`` of the group of each row, and whether there is one of two rows or more.

        Args:
            clusters: Of the rows ``(n,)``.
            vectors: Gives them as vectors ``(n, D)``.
        """
        numbers = np.array([self._groups.get(key, -1) for key in self._keys(vectors(), clusters)], np.int64)
        known = (numbers >= 0) & (self._sums.counts.take(numbers) > 1)
        return *self._sums.mean_and_std(numbers), known

    def _keys(self, rows: np.ndarray, clusters: np.ndarray) -> list[tuple[int, bytes]]:
        choices = np.rint(rows[:, self._places]).astype(np.int64)
        return [(cluster, one.tobytes()) for cluster, one in zip(clusters.tolist(), choices, strict=True)]

    def _numbers(self, keys: list[tuple[int, bytes]]) -> np.ndarray:
        return np.array([self._groups[key] for key in keys], np.int64)

    def _begin(self, key: tuple[int, bytes], row: np.ndarray) -> None:
        if not self._free:
            room = len(self._sums)
            self._sums.grow(2 * room + 1)
            self._free = list(range(2 * room, room - 1, -1))
        self._groups[key] = number = self._free.pop()
        self._sums.origin[number] = row

    def state_dict(self) -> dict[str, Any]:
        """Return everything; the sums share memory."""
        choices = b"".join(choices for _, choices in self._groups)
        return self._sums.state_dict() | {
            "clusters": np.array([cluster for cluster, _ in self._groups], np.int64),
            "choices": np.frombuffer(choices, np.int64).reshape(-1, len(self._places)),
            "numbers": np.array(list(self._groups.values()), np.int64),
            "free": np.array(self._free, np.int64),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self._sums.load_state_dict(state)
        clusters, numbers = (np.asarray(state[name]).tolist() for name in ("clusters", "numbers"))
        keys = [(cluster, one.tobytes()) for cluster, one in zip(clusters, np.asarray(state["choices"]), strict=True)]
        self._groups = dict(zip(keys, numbers, strict=True))
        self._free = np.asarray(state["free"]).tolist()
