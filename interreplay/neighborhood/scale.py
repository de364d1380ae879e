"""The scale of features: mean and standard deviation of the rows stored now, frozen for a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from interreplay.storage.running_moments import RunningMoments


class RunningStandardizer:
    """Running mean and standard deviation per dimension, and the scale in which distances are measured.

    The scale in use stays as it was at the last `freeze` until the next one: distances taken in one scale can be
    compared with each other. The moments are relative to the mean at that time.

    Args:
        dims: Number of features d.
        fixed: How many of them, the last ones, are measured as they are: their deviation counts as 1.
    """

    def __init__(self, dims: int, fixed: int = 0):
        self.moments = RunningMoments(dims)
        self.std = np.zeros(dims)
        self.free = slice(0, dims - fixed)

    @property
    def mean(self) -> np.ndarray:
        """The mean ``(d,)`` in use, that of the last freeze."""
        return self.moments.origin[0]

    def center(self, row: np.ndarray) -> None:
        """Sum around `row` ``(d,)``; to be called before the first rows are added."""
        self.moments.origin[0] = row

    def add(self, rows: np.ndarray) -> None:
        """Take note of `rows` ``(n, d)``."""
        self.moments.add(rows)

    def remove(self, rows: np.ndarray) -> None:
        """Take note that `rows` ``(n, d)`` are gone."""
        self.moments.remove(rows)

    def now(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation ``(d,)`` of the rows noted; a constant dimension has deviation 0."""
        mean, std = self.moments.mean_and_std()
        std = np.where(std <= 1e-9 * np.abs(mean), 0.0, std)
        std[self.free.stop :] = 1.0
        return mean, std

    def freeze(self) -> None:
        """Use the scale of now; sums are taken relative to the new mean from here on."""
        mean, self.std = self.now()
        self.moments.move_origin(mean)

    def restart(self) -> None:
        """Forget the rows noted but keep the mean to sum around, for an exact count from the beginning."""
        origin = self.mean.copy()
        self.moments = RunningMoments(len(origin))
        self.center(origin)

    @property
    def weights(self) -> np.ndarray:
        """1 / std ``(d,)`` in use, 0 where a dimension is constant."""
        return np.divide(1.0, self.std, out=np.zeros_like(self.std), where=self.std > 0)

    def apply(self, rows: np.ndarray) -> np.ndarray:
        """Return (rows − mean) / std, float32 ``(n, d)``; constant dimensions become 0."""
        return ((rows - self.mean) * self.weights).astype(np.float32)

    def invert(self, scaled: np.ndarray) -> np.ndarray:
        """Return the rows ``(n, d)``, float64, that `apply` turned into `scaled`; exact up to float32 rounding."""
        return scaled * self.std + self.mean

    def state_dict(self) -> dict[str, Any]:
        """Return everything; arrays share memory."""
        sums = np.stack([self.moments.sums[0], self.moments.squares[0]])
        return {"count": int(self.moments.counts[0]), "sums": sums, "mean": self.mean, "std": self.std}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self.std = np.array(state["std"], np.float64)
        self.moments = RunningMoments(len(self.std))
        self.moments.counts[0], self.moments.origin[0] = int(state["count"]), state["mean"]
        self.moments.sums[0], self.moments.squares[0] = state["sums"]


def drift(std: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return how differently two scales order distances: the root mean square of ln(std / other) over dimensions.

    Args:
        std: Standard deviations ``(..., d)``.
        other: Others ``(d,)``.

    Returns:
        Of shape ``(...)``; infinite where a dimension is constant in just one of both.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(std == other, 0.0, np.log(std / other))
    return np.sqrt((ratio * ratio).mean(-1))
