"""Shares of a batch, as whole numbers of rows."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

Share = float | Sequence[float]
"""Of every batch, or its value at the start and at the end of the run."""


class Shares:
    """How many rows of each batch each of several parts gives: exact over many batches, and in each within one row.

    Rows that a batch could not give are owed to the next ones, as in Bresenham's line: of a share of .1 and batches of
    256 rows come 25 or 26, after k batches within one row of 25.6·k.

    Args:
        names: The parts, in order.
        shares: Their shares, 0 to 1; ``(start, end)`` moves from one to the other over the run. Where but one is
            missing it gets what the others leave; where all are, they are equal.

    Raises:
        ValueError: When a share is none, a name is unknown, or they do not add up to 1.
    """

    def __init__(self, names: Sequence[str], shares: Mapping[str, Share] | None = None):
        given = {name: _ends(name, share) for name, share in (shares or {}).items()}
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(f"there is no source {unknown[0]!r} to have a share; expected {', '.join(names)}")
        missing = [name for name in names if name not in given]
        left = 1.0 - np.sum([*given.values(), (0.0, 0.0)], axis=0)
        if missing and (left < -1e-9).any() or not missing and (abs(left) > 1e-9).any():
            raise ValueError(f"the shares are {dict(shares or {})}; expected them to add up to 1")
        given |= {name: tuple(np.maximum(left, 0.0) / len(missing)) for name in missing}
        self.names = tuple(names)
        self._ends = [(float(given[name][0]), float(given[name][1])) for name in names]
        self._owed = [0.0] * len(self._ends)
        self.progress = 0.0

    @property
    def annealed(self) -> bool:
        """Whether a share changes over the run."""
        return any(start != end for start, end in self._ends)

    @property
    def current(self) -> dict[str, float]:
        """The shares of now."""
        ends = zip(self.names, self._ends, strict=True)
        return {name: start + (end - start) * self.progress for name, (start, end) in ends}

    def anneal(self, progress: float) -> None:
        """Move to `progress`, the share of the run that is done, 0 to 1."""
        self.progress = min(max(float(progress), 0.0), 1.0)

    def counts(self, size: int, available: Collection[str]) -> dict[str, int]:
        """Divide a batch.

        Args:
            size: Its rows n.
            available: Parts that have rows; the shares of others go to these, in proportion.

        Returns:
            Rows of each part that gives some; they add up to n.

        Raises:
            ValueError: When no part with a share is available.
        """
        shares = [share if name in available else 0.0 for name, share in self.current.items()]
        total = sum(shares)  # of a few numbers, for which numpy takes ten times as long
        if not total > 0:
            raise ValueError("no source with a share has rows to draw from; expected one")
        shares = [share / total for share in shares]
        due = [owed + size * share if share > 0 else 0.0 for owed, share in zip(self._owed, shares, strict=True)]
        rows, parts = [max(math.floor(number), 0) for number in due], range(len(due))
        for _ in range(size - sum(rows)):
            rows[max(parts, key=lambda i: due[i] - rows[i] if shares[i] > 0 else -math.inf)] += 1
        for _ in range(sum(rows) - size):  # where others are owed more than one row
            rows[min(parts, key=lambda i: due[i] - rows[i] if rows[i] > 0 else math.inf)] -= 1
        self._owed = [due[i] - rows[i] if shares[i] > 0 else self._owed[i] for i in parts]
        return {name: count for name, count in zip(self.names, rows, strict=True) if count}

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on."""
        return {"owed": list(self._owed), "progress": self.progress}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self._owed, self.progress = [float(owed) for owed in state["owed"]], float(state["progress"])


def _ends(name: str, share: Share) -> tuple[float, ...]:
    """Return a share at the start and at the end of the run."""
    ends = (share, share) if isinstance(share, int | float) else tuple(share)
    if len(ends) != 2 or not all(isinstance(end, int | float) and 0 <= end <= 1 for end in ends):
        raise ValueError(f"the share of {name} is {share!r}; expected 0 to 1, or (start, end) of these")
    return tuple(float(end) for end in ends if not math.isnan(end))
