"""Mean and standard deviation of the members of each cluster, updated with every row."""

from __future__ import annotations

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
