"""Cluster centers that follow the stored rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from interreplay.neighborhood.kmeans import move_centers
from interreplay.storage.running_moments import RunningStandardizer

BLOCK = 1024  # rows compared with all centers at a time; their distances stay in the cache


class ClusterCenters:
    """Cluster centers, stored in the units of the rows and compared in standardized units."""

    def __init__(self, dims: int):
        self.centers = np.zeros((0, dims))
        self.scale = RunningStandardizer(dims)
        self.rescale()

    def __len__(self) -> int:
        return len(self.centers)

    def rescale(self) -> None:
        """Use the current `scale`."""
        scaled = self.scale.apply(self.centers)
        self.slopes = (-2.0 * scaled).T.copy()
        self.squares = (scaled * scaled).sum(1)  # |c|² − 2 z·c orders centers by their distance to z

    def nearest(self, rows: np.ndarray) -> np.ndarray:
        """Return the index of the nearest center of each of `rows` ``(n, d)``, int64 ``(n,)``."""
        if len(rows) > BLOCK:
            return np.concatenate([self.nearest(rows[i : i + BLOCK]) for i in range(0, len(rows), BLOCK)])
        distances = self.scale.apply(rows) @ self.slopes
        distances += self.squares
        return distances.argmin(1)

    def squared(self, rows: np.ndarray) -> np.ndarray:
        """Return the squared distance ``(n,)`` of each of `rows` ``(n, d)`` to its nearest center, in scaled units."""
        difference = (rows - self.centers[self.nearest(rows)]) * self.scale.weights
        return np.einsum("ij,ij->i", difference, difference)

    def move(self, weights: np.ndarray, batch: Callable[[], np.ndarray], steps: int) -> None:
        """Take steps of mini-batch k-means, each on the rows ``(n, d)`` that `batch` returns.

        `weights` ``(K,)`` are the positive numbers of rows that the centers represent.
        """
        batches = ((batch() - self.scale.mean) * self.scale.weights for _ in range(steps))
        scaled = (self.centers - self.scale.mean) * self.scale.weights
        self.centers = self.scale.invert(move_centers(scaled, weights, batches))
        self.rescale()

    def seed(self, indices: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Place centers `indices` ``(m,)`` on `rows` ``(n, d)``, n ≥ m, drawn in proportion to squared distance.

        As in k-means++ (Arthur & Vassilvitskii 2007), distances are those to the nearest of the existing centers.
        Return the indices of the chosen rows ``(m,)``, without repetition.
        """
        squared = self.squared(rows) if len(self) else np.ones(len(rows))
        order = np.log(np.maximum(squared, 1e-12)) + rng.gumbel(size=len(rows))  # draws without replacement
        chosen = np.argsort(-order, kind="stable")[: len(indices)]
        self.centers = np.pad(self.centers, ((0, max(0, int(indices[-1]) + 1 - len(self))), (0, 0)))
        self.centers[indices] = rows[chosen]
        self.rescale()
        return chosen

    def state_dict(self) -> dict[str, Any]:
        return {"centers": self.centers, "scale": self.scale.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.centers = np.array(state["centers"], np.float64)
        self.scale.load_state_dict(state["scale"])
        self.rescale()
