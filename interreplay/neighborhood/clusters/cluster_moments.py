"""Mean and standard deviation of the members of each cluster, row by row up to date."""

from __future__ import annotations

from typing import Any

import numpy as np

NAMES = ("counts", "shift", "sums", "squares")


class ClusterSums:
    """Sums of vectors and of their squares per cluster, float64.

    They are taken relative to a point of each cluster, so that deviations much smaller than the values come out right.
    `reset` moves that point to the mean; adding all members again then makes the sums exact, and what rounding has
    left behind, after an outlier that came and went for instance, is gone. An empty cluster is exactly zero.

    Args:
        dims: Length D of a vector.
        dtype: Of vectors.
    """

    def __init__(self, dims: int, dtype: Any = np.float32):
        self.counts = np.zeros(0, np.int64)
        self.shift, self.sums, self.squares = (np.zeros((0, dims)) for _ in range(3))
        self._moments = np.zeros((0, 2, dims), np.dtype(dtype))
        self._changed: set[int] = set()  # clusters whose moments have to be computed

    def grow(self, count: int) -> None:
        """Have `count` clusters; new ones are empty."""
        more = count - len(self.counts)
        self.counts = np.pad(self.counts, (0, more))
        for name in NAMES[1:]:
            setattr(self, name, np.pad(getattr(self, name), ((0, more), (0, 0))))
        self._moments = np.pad(self._moments, ((0, more), (0, 0), (0, 0)))

    def add(self, clusters: np.ndarray, vectors: np.ndarray, sign: int = 1) -> None:
        """Take note of `vectors` ``(n, D)`` in `clusters` ``(n,)``; with `sign` −1, that they are gone."""
        if len(clusters) == 1:  # the usual case by far, and quick
            self._add_to(int(clusters[0]), vectors[0], sign)
            return
        order = np.argsort(clusters, kind="stable")
        touched, first, counts = np.unique(clusters[order], return_index=True, return_counts=True)
        shifted = (vectors - self.shift[clusters])[order]
        self.counts[touched] += sign * counts
        self.sums[touched] += sign * np.add.reduceat(shifted, first)
        self.squares[touched] += sign * np.add.reduceat(shifted * shifted, first)
        self._clear(touched[self.counts[touched] == 0])
        self._changed.update(touched.tolist())

    def _add_to(self, cluster: int, vector: np.ndarray, sign: int) -> None:
        shifted = vector - self.shift[cluster]
        sums, squares = self.sums[cluster], self.squares[cluster]
        if sign < 0:
            sums -= shifted
            squares -= shifted * shifted
        else:
            sums += shifted
            squares += shifted * shifted
        self.counts[cluster] += sign
        if self.counts[cluster] == 0:
            self._clear(cluster)
        self._changed.add(cluster)

    def _clear(self, clusters: np.ndarray | int) -> None:
        self.counts[clusters], self.sums[clusters], self.squares[clusters] = 0, 0.0, 0.0

    def reset(self, clusters: np.ndarray) -> None:
        """Empty `clusters` ``(c,)``; sums are taken around what was their mean, or that of all rows, from here on."""
        everything = (self.sums + self.shift * self.counts[:, None]).sum(0) / max(int(self.counts.sum()), 1)
        counts = self.counts[clusters][:, None]
        means = self.shift[clusters] + self.sums[clusters] / np.maximum(counts, 1)
        self.shift[clusters] = np.where(counts > 0, means, everything)
        self._clear(clusters)
        self._changed.update(clusters.tolist())

    def moments(self, clusters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation ``(n, D)`` of each of `clusters` ``(n,)``, in the dtype of the vectors."""
        if self._changed:
            changed = np.fromiter(self._changed, np.int64)
            counts = np.maximum(self.counts[changed], 1)[:, None]
            offset = self.sums[changed] / counts
            variance = np.maximum(self.squares[changed] / counts - offset * offset, 0.0)
            self._moments[changed] = np.stack([self.shift[changed] + offset, np.sqrt(variance)], axis=1)
            self._changed.clear()
        mean, std = self._moments.take(clusters, axis=0).transpose(1, 0, 2)
        return mean, std

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in NAMES}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in NAMES:
            setattr(self, name, np.array(state[name]))
        self._moments = np.zeros((len(self.counts), *self._moments.shape[1:]), self._moments.dtype)
        self._changed = set(range(len(self.counts)))
