"""Mean and standard deviation of rows that are added and removed."""

from __future__ import annotations

from typing import Any

import numpy as np

from interreplay.storage.state_copies import attributes


class RunningMoments:
    """Means and standard deviations of the current rows of groups, such as clusters, or of all stored rows.

    Sums and sums of squares are float64 and relative to an origin per group, so that deviations much smaller than the
    values are accurate. The sums of an empty group are exactly zero. Adding and removing a row leaves a rounding error;
    use `ExactMoments` if rows are never summed again from scratch.
    """

    def __init__(self, dims: int, groups: int = 1):
        self.counts = np.zeros(groups, np.int64)
        self.origin = np.zeros((groups, dims))
        self.sums = np.zeros((groups, dims))
        self.squares = np.zeros((groups, dims))

    def __len__(self) -> int:
        return len(self.counts)

    def grow(self, groups: int) -> None:
        """Grow to `groups` groups; new ones are empty."""
        more = groups - len(self)
        self.counts = np.pad(self.counts, (0, more))
        for name in ("origin", "sums", "squares"):
            setattr(self, name, np.pad(getattr(self, name), ((0, more), (0, 0))))

    def add(self, rows: np.ndarray, groups: np.ndarray | int = 0) -> None:
        """Add `rows` ``(n, D)`` to one group, or each to its own of `groups` ``(n,)``."""
        self._change(rows, groups, 1)

    def remove(self, rows: np.ndarray, groups: np.ndarray | int = 0) -> None:
        """Remove `rows` ``(n, D)`` from the groups that they were added to."""
        self._change(rows, groups, -1)

    def _change(self, rows: np.ndarray, groups: np.ndarray | int, sign: int) -> None:
        if len(rows) == 1:  # the usual case, and a fast one
            group = groups if isinstance(groups, int) else int(groups[0])
            shifted = rows[0] - self.origin[group]
            self._sum(group, sign, 1, shifted, shifted * shifted)
        elif isinstance(groups, int):
            shifted = rows - self.origin[groups]
            self._sum(groups, sign, len(rows), shifted.sum(0), (shifted * shifted).sum(0))
        else:
            order = np.argsort(groups, kind="stable")
            touched, first, counts = np.unique(groups[order], return_index=True, return_counts=True)
            shifted = (rows - self.origin[groups])[order]
            squared = shifted * shifted
            self._sum(touched, sign, counts, np.add.reduceat(shifted, first), np.add.reduceat(squared, first))

    def _sum(self, groups: Any, sign: int, counts: Any, sums: np.ndarray, squares: np.ndarray) -> None:
        """Add to the sums of `groups`, without repetition, or subtract from them if `sign` is −1."""
        self.counts[groups] += sign * counts
        self.sums[groups] += sign * sums
        self.squares[groups] += sign * squares
        if not isinstance(groups, int):
            self._clear(groups[self.counts[groups] == 0])
        elif not self.counts[groups]:
            self._clear(groups)

    def _clear(self, groups: np.ndarray | int) -> None:
        self.counts[groups] = 0
        self.sums[groups] = 0.0
        self.squares[groups] = 0.0

    def _totals(self, groups: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return sums and sums of squares of `groups`."""
        return self.sums[groups], self.squares[groups]

    def clear(self, groups: np.ndarray) -> None:
        """Clear `groups` ``(g,)``; their new origins are their means, or the mean of all rows if they were empty."""
        sums, _ = self._totals(slice(None))
        count = int(self.counts.sum())
        counts = self.counts[groups][:, None]
        if count:
            everything = (sums + self.origin * self.counts[:, None]).sum(0) / count
            means = self.origin[groups] + sums[groups] / np.maximum(counts, 1)
            self.origin[groups] = np.where(counts > 0, means, everything)
        self._clear(groups)

    def move_origin(self, origin: np.ndarray) -> None:
        """Change the origin of the only group to `origin` ``(D,)``; its rows do not change."""
        count = int(self.counts[0])
        offset = origin - self.origin[0]
        self.squares[0] += count * offset * offset - 2.0 * offset * self.sums[0]
        self.sums[0] -= count * offset
        self.origin[0] = origin

    def mean_and_std(self, groups: np.ndarray | int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation: ``(g, D)`` of `groups` ``(g,)``, ``(D,)`` of a single one."""
        counts = np.maximum(self.counts[groups], 1)[..., None]
        sums, squares = self._totals(groups)
        offset = sums / counts
        variance = np.maximum(squares / counts - offset * offset, 0.0)
        return self.origin[groups] + offset, np.sqrt(variance)

    def state_dict(self) -> dict[str, Any]:
        return attributes(self, ("counts", "origin", "sums", "squares"))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.counts = np.array(state["counts"], np.int64)
        for name in ("origin", "sums", "squares"):
            setattr(self, name, np.array(state[name], np.float64))


class ExactMoments(RunningMoments):
    """`RunningMoments` of one group with the rounding error of each sum (Neumaier 1974).

    Removed rows, outliers included, leave no error behind. A change of one row takes twice the time.
    """

    def __init__(self, dims: int):
        super().__init__(dims)
        self.lost = np.zeros((2, 1, dims))  # rounding errors of sums and of squares

    def _sum(self, groups: Any, sign: int, counts: Any, sums: np.ndarray, squares: np.ndarray) -> None:
        old_sums = self.sums[groups].copy()
        old_squares = self.squares[groups].copy()
        super()._sum(groups, sign, counts, sums, squares)
        self.lost[0, groups] += rounding_error(old_sums, sign * sums, self.sums[groups])
        self.lost[1, groups] += rounding_error(old_squares, sign * squares, self.squares[groups])
        self.lost[:, groups] *= (self.counts[groups] > 0)[..., None]  # an empty group is exactly zero

    def _clear(self, groups: np.ndarray | int) -> None:
        super()._clear(groups)
        self.lost[:, groups] = 0.0

    def _totals(self, groups: Any) -> tuple[np.ndarray, np.ndarray]:
        return self.sums[groups] + self.lost[0, groups], self.squares[groups] + self.lost[1, groups]

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"lost": self.lost}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.lost = np.array(state["lost"], np.float64)


def rounding_error(old: np.ndarray, change: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return the rounding error of the sum `new` = `old` + `change` (Knuth's two-sum)."""
    added = new - old
    return (old - (new - added)) + (change - added)


class RunningStandardizer(RunningMoments):
    """Running mean and standard deviation per dimension, and the scale in which distances are measured.

    The scale in use changes only at `freeze`, so that distances can be compared with each other. The moments are
    relative to the mean at that time.

    Args:
        fixed: Number of features, the last ones, that are not scaled: their deviation counts as 1.

    Attributes:
        weights: 1 / std ``(d,)`` in use; 0 for constant dimensions.
    """

    def __init__(self, dims: int, fixed: int = 0):
        super().__init__(dims)
        self._use(np.zeros(dims))
        self.free = slice(0, dims - fixed)

    @property
    def mean(self) -> np.ndarray:
        """Mean ``(d,)`` at the last freeze."""
        return self.origin[0]

    def center(self, row: np.ndarray) -> None:
        """Sum around `row` ``(d,)``; call this before the first rows are added."""
        self.origin[0] = row

    def current(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation ``(d,)`` of the current rows; 0 for the deviation of a constant."""
        mean, std = self.mean_and_std()
        std = np.where(std <= 1e-9 * np.abs(mean), 0.0, std)
        std[self.free.stop :] = 1.0
        return mean, std

    def freeze(self) -> None:
        """Use the current scale from now on, and sum around the current mean."""
        mean, std = self.current()
        self._use(std)
        self.move_origin(mean)

    def _use(self, std: np.ndarray) -> None:
        self.std = std
        self.weights = np.divide(1.0, std, out=np.zeros_like(std), where=std > 0)

    def restart(self) -> None:
        """Remove all rows, so that they can be summed again without accumulated rounding errors."""
        self._clear(0)

    def apply(self, rows: np.ndarray) -> np.ndarray:
        """Return (rows − mean) / std, float32 ``(n, d)``; constant dimensions become 0."""
        return ((rows - self.mean) * self.weights).astype(np.float32)

    def invert(self, scaled: np.ndarray) -> np.ndarray:
        """Return the rows ``(n, d)``, float64, that `apply` turned into `scaled`; exact up to float32 rounding."""
        return scaled * self.std + self.mean

    def state_dict(self) -> dict[str, Any]:
        sums = np.stack([self.sums[0], self.squares[0]])
        return {"count": int(self.counts[0]), "sums": sums, "mean": self.mean, "std": self.std}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._use(np.array(state["std"], np.float64))
        self.counts[0] = int(state["count"])
        self.origin[0] = state["mean"]
        self.sums[0], self.squares[0] = state["sums"]


def drift(std: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return how much scales `std` ``(..., d)`` differ from `other` ``(d,)``: the root mean square of ln(std / other).

    It is infinite if a dimension is constant in only one of the two scales.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(std == other, 0.0, np.log(std / other))
    return np.sqrt((ratio * ratio).mean(-1))
