"""The scale of features: running mean and standard deviation, and a frozen copy that distances use."""

from __future__ import annotations

from typing import Any

import numpy as np

from interreplay.storage.running_moments import RunningMoments


class RunningStandardizer:
    """Running mean and standard deviation per dimension, and the scale in which distances are measured.

    The scale in use changes only at `freeze`, so that distances can be compared with each other. The moments are
    relative to the mean at that time.

    Args:
        dims: Number of features d.
        fixed: Number of features, the last ones, that are not scaled: their deviation counts as 1.
    """

    def __init__(self, dims: int, fixed: int = 0):
        self.moments = RunningMoments(dims)
        self.std = np.zeros(dims)
        self.free = slice(0, dims - fixed)

    @property
    def mean(self) -> np.ndarray:
        """Mean ``(d,)`` at the last freeze."""
        return self.moments.origin[0]

    def center(self, row: np.ndarray) -> None:
        """Sum around `row` ``(d,)``; call this before the first rows are added."""
        self.moments.origin[0] = row

    def add(self, rows: np.ndarray) -> None:
        """Add `rows` ``(n, d)`` to the moments."""
        self.moments.add(rows)

    def remove(self, rows: np.ndarray) -> None:
        """Remove `rows` ``(n, d)`` from the moments."""
        self.moments.remove(rows)

    def current(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation ``(d,)`` of the current rows; 0 for the deviation of a constant."""
        mean, std = self.moments.mean_and_std()
        std = np.where(std <= 1e-9 * np.abs(mean), 0.0, std)
        std[self.free.stop :] = 1.0
        return mean, std

    def freeze(self) -> None:
        """Use the current scale from now on, and sum around the current mean."""
        mean, self.std = self.current()
        self.moments.move_origin(mean)

    def restart(self) -> None:
        """Remove all rows, so that they can be summed again without accumulated rounding errors."""
        origin = self.mean.copy()
        self.moments = RunningMoments(len(origin))
        self.center(origin)

    @property
    def weights(self) -> np.ndarray:
        """1 / std ``(d,)`` in use; 0 for constant dimensions."""
        return np.divide(1.0, self.std, out=np.zeros_like(self.std), where=self.std > 0)

    def apply(self, rows: np.ndarray) -> np.ndarray:
        """Return (rows − mean) / std, float32 ``(n, d)``; constant dimensions become 0."""
        return ((rows - self.mean) * self.weights).astype(np.float32)

    def invert(self, scaled: np.ndarray) -> np.ndarray:
        """Return the rows ``(n, d)``, float64, that `apply` turned into `scaled`; exact up to float32 rounding."""
        return scaled * self.std + self.mean

    def state_dict(self) -> dict[str, Any]:
        """Return the state; arrays share memory."""
        sums = np.stack([self.moments.sums[0], self.moments.squares[0]])
        return {"count": int(self.moments.counts[0]), "sums": sums, "mean": self.mean, "std": self.std}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        self.std = np.array(state["std"], np.float64)
        self.moments = RunningMoments(len(self.std))
        self.moments.counts[0] = int(state["count"])
        self.moments.origin[0] = state["mean"]
        self.moments.sums[0], self.moments.squares[0] = state["sums"]


def drift(std: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return how much two scales differ: the root mean square of ln(std / other) over dimensions.

    Args:
        std: Standard deviations ``(..., d)``.
        other: Standard deviations ``(d,)``.

    Returns:
        Drifts ``(...)``; infinite if a dimension is constant in only one of the two scales.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(std == other, 0.0, np.log(std / other))
    return np.sqrt((ratio * ratio).mean(-1))
