"""Mean and standard deviation of rows that come and go."""

from __future__ import annotations

from typing import Any

import numpy as np


class RunningMoments:
    """Means and standard deviations of the rows that groups hold now, such as clusters, or all that are stored.

    Kept are sums and sums of squares, float64 and relative to an origin of each group, so that deviations much smaller
    than the values come out right. An empty group is exactly zero. A row that came and went leaves no more behind than
    the rounding of a sum with it; where rows are not counted anew now and then, `ExactMoments` keeps even that.

    Args:
        dims: Numbers D in a row.
        groups: Number of groups G.
    """

    def __init__(self, dims: int, groups: int = 1):
        self.counts = np.zeros(groups, np.int64)
        self.origin, self.sums, self.squares = (np.zeros((groups, dims)) for _ in range(3))

    def __len__(self) -> int:
        return len(self.counts)

    def grow(self, groups: int) -> None:
        """Have `groups` groups; new ones are empty."""
        more = groups - len(self)
        self.counts = np.pad(self.counts, (0, more))
        for name in ("origin", "sums", "squares"):
            setattr(self, name, np.pad(getattr(self, name), ((0, more), (0, 0))))

    def add(self, rows: np.ndarray, groups: np.ndarray | int = 0) -> None:
        """Take in `rows` ``(n, D)``: all into one group, or each into its own of `groups` ``(n,)``."""
        self._change(rows, groups, 1)

    def remove(self, rows: np.ndarray, groups: np.ndarray | int = 0) -> None:
        """Take `rows` ``(n, D)`` out again of where they were added."""
        self._change(rows, groups, -1)

    def _change(self, rows: np.ndarray, groups: np.ndarray | int, sign: int) -> None:
        if len(rows) == 1:  # the usual case by far, and quick
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
        """Add to what `groups`, each once, hold, or with `sign` −1 subtract from it."""
        self.counts[groups] += sign * counts
        change = np.add if sign > 0 else np.subtract
        if isinstance(groups, int):
            held, squared = self.sums[groups], self.squares[groups]
            change(held, sums, out=held)
            change(squared, squares, out=squared)
            if not self.counts[groups]:
                self._clear(groups)
        else:
            self.sums[groups] = change(self.sums[groups], sums)
            self.squares[groups] = change(self.squares[groups], squares)
            self._clear(groups[self.counts[groups] == 0])

    def _clear(self, groups: np.ndarray | int) -> None:
        self.counts[groups], self.sums[groups], self.squares[groups] = 0, 0.0, 0.0

    def _totals(self, groups: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return sums and sums of squares of `groups`."""
        return self.sums[groups], self.squares[groups]

    def clear(self, groups: np.ndarray) -> None:
        """Clear `groups` ``(g,)``; sums are taken around what was their mean, or that of all rows, from here on."""
        sums, _ = self._totals(slice(None))
        count, counts = int(self.counts.sum()), self.counts[groups][:, None]
        if count:
            everything = (sums + self.origin * self.counts[:, None]).sum(0) / count
            means = self.origin[groups] + sums[groups] / np.maximum(counts, 1)
            self.origin[groups] = np.where(counts > 0, means, everything)
        self._clear(groups)

    def move_origin(self, origin: np.ndarray, group: int = 0) -> None:
        """Take the sums of a group relative to `origin` ``(D,)`` from here on; what it holds stays."""
        count, offset = int(self.counts[group]), origin - self.origin[group]
        self.squares[group] += count * offset * offset - 2.0 * offset * self.sums[group]
        self.sums[group] -= count * offset
        self.origin[group] = origin

    def mean_and_std(self, groups: np.ndarray | int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and standard deviation: ``(g, D)`` of `groups` ``(g,)``, ``(D,)`` of a single one."""
        counts = np.maximum(self.counts[groups], 1)[..., None]
        sums, squares = self._totals(groups)
        offset = sums / counts
        variance = np.maximum(squares / counts - offset * offset, 0.0)
        return self.origin[groups] + offset, np.sqrt(variance)

    def state_dict(self) -> dict[str, Any]:
        """Return everything; the arrays share memory."""
        return {name: getattr(self, name) for name in ("counts", "origin", "sums", "squares")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self.counts = np.array(state["counts"], np.int64)
        for name in ("origin", "sums", "squares"):
            setattr(self, name, np.array(state[name], np.float64))


class ExactMoments(RunningMoments):
    """`RunningMoments` that keep beside each sum what rounding took from it (Neumaier 1974).

    Whatever came and went, outliers among it, leaves nothing behind. A change of one row takes twice the time.
    """

    def __init__(self, dims: int, groups: int = 1):
        super().__init__(dims, groups)
        self.lost = np.zeros((2, groups, dims))  # of sums, and of squares

    def grow(self, groups: int) -> None:
        self.lost = np.pad(self.lost, ((0, 0), (0, groups - len(self)), (0, 0)))
        super().grow(groups)

    def _sum(self, groups: Any, sign: int, counts: Any, sums: np.ndarray, squares: np.ndarray) -> None:
        before = self.sums[groups].copy(), self.squares[groups].copy()
        super()._sum(groups, sign, counts, sums, squares)
        for number, (held, old, more) in enumerate(
            zip((self.sums, self.squares), before, (sign * sums, sign * squares), strict=True)
        ):
            new = held[groups]
            taken = new - old  # Knuth's two-sum
            self.lost[number, groups] += (old - (new - taken)) + (more - taken)
        self._forget(groups)

    def _forget(self, groups: Any) -> None:
        """Keep nothing of groups that are empty."""
        self.lost[:, groups] *= (self.counts[groups] > 0)[..., None]

    def _clear(self, groups: np.ndarray | int) -> None:
        super()._clear(groups)
        self.lost[:, groups] = 0.0

    def _totals(self, groups: Any) -> tuple[np.ndarray, np.ndarray]:
        return self.sums[groups] + self.lost[0, groups], self.squares[groups] + self.lost[1, groups]

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"lost": self.lost}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.lost = np.array(state.get("lost", np.zeros((2, *self.sums.shape))), np.float64)
