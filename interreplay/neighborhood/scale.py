"""The scale of features: mean and standard deviation of the rows stored now, kept up to date row by row."""

from __future__ import annotations

from typing import Any

import numpy as np


class Scale:
    """Running mean and standard deviation per dimension, and the scale in which distances are measured.

    Sums are float64 and relative to the mean at the last `freeze`, so they neither cancel nor drift. The
    scale in use stays as it was at that moment until the next one: distances taken in one scale can be
    compared with each other.

    Args:
        dims: Number of features d.
    """

    def __init__(self, dims: int):
        self.count = 0
        self.sums = np.zeros((2, dims))
        self.mean = np.zeros(dims)  # at the last freeze
        self.std = np.zeros(dims)

    def center(self, row: np.ndarray) -> None:
        """Sum around `row` ``(d,)``; to be said before the first rows are added."""
        self.mean = row.astype(np.float64)

    def add(self, rows: np.ndarray, sign: int = 1) -> None:
        """Take note of `rows` ``(n, d)``; with `sign` −1, that they are gone."""
        shifted = rows.astype(np.float64) - self.mean
        self.count += sign * len(rows)
        self.sums[0] += sign * shifted.sum(0)
        self.sums[1] += sign * (shifted * shifted).sum(0)

    def now(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation ``(d,)`` of the rows noted; a constant dimension has deviation 0."""
        offset = self.sums[0] / max(self.count, 1)
        variance = self.sums[1] / max(self.count, 1) - offset * offset
        mean = self.mean + offset
        std = np.sqrt(np.maximum(variance, 0.0))
        return mean, np.where(std <= 1e-9 * np.abs(mean), 0.0, std)

    def freeze(self) -> None:
        """Use the scale of now; sums are taken relative to the new mean from here on."""
        mean, self.std = self.now()
        offset = mean - self.mean
        self.sums[1] += self.count * offset * offset - 2.0 * offset * self.sums[0]
        self.sums[0] -= self.count * offset
        self.mean = mean

    def restart(self) -> None:
        """Forget the rows noted but keep the mean to sum around, for an exact count from the beginning."""
        self.count = 0
        self.sums[:] = 0.0

    @property
    def weights(self) -> np.ndarray:
        """1 / std ``(d,)`` in use, 0 where a dimension is constant."""
        return np.divide(1.0, self.std, out=np.zeros_like(self.std), where=self.std > 0)

    def apply(self, rows: np.ndarray) -> np.ndarray:
        """(rows − mean) / std, float32 ``(n, d)``; constant dimensions become 0."""
        return ((rows - self.mean) * self.weights).astype(np.float32)

    def invert(self, scaled: np.ndarray) -> np.ndarray:
        """The rows ``(n, d)``, float64, that `apply` turned into `scaled`; exact up to float32 rounding."""
        return scaled * self.std + self.mean

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count, "sums": self.sums, "mean": self.mean, "std": self.std}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = int(state["count"])
        for name in ("sums", "mean", "std"):
            setattr(self, name, np.array(state[name], dtype=np.float64))


def drift(std: np.ndarray, other: np.ndarray) -> float:
    """The largest |ln(std / other)| over dimensions ``(d,)``; infinite where just one of both is constant."""
    varying = (std > 0) & (other > 0)
    if not np.array_equal(std > 0, other > 0):
        return float("inf")
    return float(np.abs(np.log(std[varying] / other[varying])).max(initial=0.0))
