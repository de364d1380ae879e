"""Mini-batch k-means: centers that follow what is stored. Sculley 2010, Web-scale k-means clustering, WWW."""

from __future__ import annotations

from typing import Any

import numpy as np

from interreplay.neighborhood.scale import RunningStandardizer

BLOCK = 1024  # rows compared with all centers at a time; their distances stay in the cache


class MiniBatchKMeans:
    """Centers of clusters, kept in the units of the rows and compared in the scale of now.

    Args:
        dims: Number of features d.
    """

    def __init__(self, dims: int):
        self.centers = np.zeros((0, dims))
        self.scale = RunningStandardizer(dims)
        self.rescale()

    def __len__(self) -> int:
        return len(self.centers)

    def rescale(self) -> None:
        """Compare in the scale that `scale` has now."""
        self.weights = self.scale.weights
        scaled = self._scaled(self.centers)
        self.slopes, self.squares = (-2.0 * scaled).T.copy(), (scaled * scaled).sum(1)  # |c|² − 2 z·c

    def _scaled(self, rows: np.ndarray) -> np.ndarray:
        return ((rows - self.scale.mean) * self.weights).astype(np.float32)

    def nearest(self, rows: np.ndarray) -> np.ndarray:
        """Return number of the nearest center of each of `rows` ``(n, d)``, int64 ``(n,)``."""
        if len(rows) <= BLOCK:
            distances = self._scaled(rows) @ self.slopes
            distances += self.squares
            return distances.argmin(1)
        return np.concatenate([self.nearest(rows[start : start + BLOCK]) for start in range(0, len(rows), BLOCK)])

    def squared(self, rows: np.ndarray) -> np.ndarray:
        """Return squared distance of each of `rows` ``(n, d)`` to its nearest center, in the scale in use: ``(n,)``."""
        difference = (rows - self.centers[self.nearest(rows)]) * self.weights
        return np.einsum("ij,ij->i", difference, difference)

    def step(self, rows: np.ndarray, weights: np.ndarray) -> None:
        """Move every center towards the mean of the `rows` ``(n, d)`` nearest to it.

        Args:
            rows: One batch.
            weights: How many rows each center stands for so far ``(K,)``; those of the batch are added in place.
        """
        numbers = self.nearest(rows)
        order = np.argsort(numbers, kind="stable")
        touched, first, counts = np.unique(numbers[order], return_index=True, return_counts=True)
        weights[touched] += counts
        pull = np.add.reduceat(rows[order] - self.centers[numbers[order]], first, axis=0)
        self.centers[touched] += pull / weights[touched, None]
        self.rescale()

    def seed(self, numbers: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Put centers `numbers` ``(m,)`` on `rows` ``(n, d)``, n ≥ m, drawn in proportion to squared distance.

        The distance is that to the nearest center there was before, as in k-means++ (Arthur & Vassilvitskii 2007).

        Returns:
            Which rows were chosen, ``(m,)``, each once.
        """
        squared = self.squared(rows) if len(self) else np.ones(len(rows))
        order = np.log(np.maximum(squared, 1e-12)) + rng.gumbel(size=len(rows))  # the largest: draws without return
        chosen = np.argsort(-order, kind="stable")[: len(numbers)]
        self.centers = np.pad(self.centers, ((0, max(0, int(numbers[-1]) + 1 - len(self))), (0, 0)))
        self.centers[numbers] = rows[chosen]
        self.rescale()
        return chosen

    def state_dict(self) -> dict[str, Any]:
        return {"centers": self.centers, "scale": self.scale.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.centers = np.array(state["centers"], np.float64)
        self.scale.load_state_dict(state["scale"])
        self.rescale()
