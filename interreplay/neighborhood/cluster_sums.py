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
    """

    def __init__(self, dims: int):
        self.counts = np.zeros(0, np.int64)
        self.shift, self.sums, self.squares = (np.zeros((0, dims)) for _ in range(3))

    def grow(self, count: int) -> None:
        """Have `count` clusters; new ones are empty."""
        more = count - len(self.counts)
        self.counts = np.pad(self.counts, (0, more))
        for name in NAMES[1:]:
            setattr(self, name, np.pad(getattr(self, name), ((0, more), (0, 0))))

    def add(self, clusters: np.ndarray, vectors: np.ndarray, sign: int = 1) -> None:
        """Take note of `vectors` ``(n, D)`` in `clusters` ``(n,)``; with `sign` −1, that they are gone."""
        if len(clusters) == 1:
            touched, counts, shifted = clusters, sign, vectors - self.shift[clusters]
            sums, squares = shifted, shifted * shifted
        else:
            order = np.argsort(clusters, kind="stable")
            touched, first, counts = np.unique(clusters[order], return_index=True, return_counts=True)
            if not len(touched):
                return
            shifted = (vectors - self.shift[clusters])[order]
            sums, squares = np.add.reduceat(shifted, first), np.add.reduceat(shifted * shifted, first)
            counts = counts * sign
        self.counts[touched] += counts
        self.sums[touched] += sign * sums
        self.squares[touched] += sign * squares
        if sign < 0:
            self._clear(touched[self.counts[touched] == 0])

    def _clear(self, clusters: np.ndarray) -> None:
        self.counts[clusters], self.sums[clusters], self.squares[clusters] = 0, 0.0, 0.0

    def reset(self, clusters: np.ndarray) -> None:
        """Empty `clusters` ``(c,)``; sums are taken around what was their mean, or that of all rows, from here on."""
        everything = (self.sums + self.shift * self.counts[:, None]).sum(0) / max(int(self.counts.sum()), 1)
        counts = self.counts[clusters][:, None]
        means = self.shift[clusters] + self.sums[clusters] / np.maximum(counts, 1)
        self.shift[clusters] = np.where(counts > 0, means, everything)
        self._clear(clusters)

    def moments(self, clusters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation ``(n, D)``, float64, of each of `clusters` ``(n,)``; of an empty one 0 apart."""
        counts = np.maximum(self.counts.take(clusters), 1)[:, None]
        offset = self.sums.take(clusters, axis=0)
        offset /= counts
        variance = self.squares.take(clusters, axis=0)
        variance /= counts
        variance -= offset * offset
        np.maximum(variance, 0.0, out=variance)
        offset += self.shift.take(clusters, axis=0)
        return offset, np.sqrt(variance, out=variance)

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in NAMES}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in NAMES:
            setattr(self, name, np.array(state[name]))
