"""Mean and standard deviation of the members of each cluster, row by row up to date."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from interreplay.storage.running_moments import RunningMoments


class ClusterMoments(RunningMoments):
    """`RunningMoments` of clusters, of which those that changed since they were asked for are computed anew.

    Args:
        dims: Length D of a vector.
        dtype: Of vectors, and of the moments as they are returned.
    """

    def __init__(self, dims: int, dtype: Any = np.float32):
        super().__init__(dims, 0)
        self._moments = np.zeros((0, 2, dims), np.dtype(dtype))
        self._changed: set[int] = set()  # clusters whose moments have to be computed

    def start_around(self, middle: np.ndarray) -> None:
        """Take sums around `middle` ``(D,)``, of rows that are added from here on to groups that are empty."""
        self.origin[:] = middle

    def around(
        self, groups: np.ndarray, vectors: Callable[[], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return mean and deviation ``(n, D)`` of each of `groups` ``(n,)``, and whether it has rows that count."""
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
        """Continue from a state; earlier ones name the origin ``shift``."""
        super().load_state_dict({"origin": state["shift"]} | state if "shift" in state else state)
        self._moments = np.zeros((len(self.counts), *self._moments.shape[1:]), self._moments.dtype)
        self._changed = set(range(len(self.counts)))
