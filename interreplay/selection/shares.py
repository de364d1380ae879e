"""Shares of each batch, rounded to whole rows."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

Share = float | Sequence[float]
"""Share of each batch, or its values at the start and at the end of the run."""


class Shares:
    """Divides batches among several sources: exact over many batches, and within one row in each batch.

    Remainders are carried over to the next batches, as in Bresenham's line algorithm: a share of .1 of 256 rows gives
    25 or 26 rows per batch, and within one row of 25.6·k after k batches.

    Args:
        names: Names of the sources, in order.
        shares: Shares by name, 0 to 1. ``(start, end)`` moves linearly from one to the other over the run. Sources
            that are missing divide the remainder equally.

    Raises:
        ValueError: If a share is invalid, a name is unknown, or the shares do not add up to 1.
    """

    def __init__(self, names: Sequence[str], shares: Mapping[str, Share] | None = None):
        given = {name: _ends(name, share) for name, share in (shares or {}).items()}
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(f"there is no source {unknown[0]!r} to have a share; expected {', '.join(names)}")
        missing = [name for name in names if name not in given]
        left = 1.0 - np.sum([*given.values(), (0.0, 0.0)], axis=0)
        if (left < -1e-9).any() or (not missing and (left > 1e-9).any()):
            raise ValueError(f"the shares are {dict(shares or {})}; expected them to add up to 1")
        given |= {name: tuple(np.maximum(left, 0.0) / len(missing)) for name in missing}
        self.names = tuple(names)
        self._ends = [(float(given[name][0]), float(given[name][1])) for name in names]
        self._carried = [0.0] * len(self._ends)
        self.progress = 0.0

    @property
    def annealed(self) -> bool:
        """Whether a share changes over the run."""
        return any(start != end for start, end in self._ends)

    @property
    def current(self) -> dict[str, float]:
        """The current shares by name."""
        ends = zip(self.names, self._ends, strict=True)
        return {name: start + (end - start) * self.progress for name, (start, end) in ends}

    def anneal(self, progress: float) -> None:
        """Move to `progress`, the completed share of the run, from 0 to 1."""
        self.progress = min(max(float(progress), 0.0), 1.0)

    def counts(self, size: int, available: Collection[str]) -> dict[str, int]:
        """Divide the next batch.

        Args:
            size: Number of rows n.
            available: Sources that have rows. They receive the shares of all others in proportion.

        Returns:
            Number of rows per source, without zeros; the sum is n.

        Raises:
            ValueError: If no source with a share is available.
        """
        counts, self._carried = self._divide(size, available)
        return counts

    def preview(self, size: int, available: Collection[str]) -> dict[str, int]:
        """Return what `counts` would return, without dividing a batch."""
        return self._divide(size, available)[0]

    def _divide(self, size: int, available: Collection[str]) -> tuple[dict[str, int], list[float]]:
        """Return the rows per source and the remainders to carry over."""
        shares = [share if name in available else 0.0 for name, share in self.current.items()]
        total = sum(shares)  # numpy takes ten times as long for a few numbers
        if not total > 0:
            raise ValueError("no source with a share has rows to draw from; expected one")
        active = [index for index, share in enumerate(shares) if share > 0]
        due = [0.0] * len(shares)
        rows = [0] * len(shares)
        for index in active:
            due[index] = self._carried[index] + size * (shares[index] / total)
            rows[index] = max(math.floor(due[index]), 0)
        for _ in range(size - sum(rows)):
            rows[max(active, key=lambda index: due[index] - rows[index])] += 1
        for _ in range(sum(rows) - size):  # if more than one row is carried over
            rows[min(filter(rows.__getitem__, active), key=lambda index: due[index] - rows[index])] -= 1
        carried = list(self._carried)
        for index in active:
            carried[index] = due[index] - rows[index]
        return {name: count for name, count in zip(self.names, rows, strict=True) if count}, carried

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume."""
        return {"owed": list(self._carried), "progress": self.progress}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state returned by `state_dict`."""
        self._carried = [float(rows) for rows in state["owed"]]
        self.progress = float(state["progress"])


def _ends(name: str, share: Share) -> tuple[float, ...]:
    """Return a share at the start and at the end of the run."""
    ends = (share, share) if isinstance(share, int | float) else tuple(share)
    if len(ends) != 2 or not all(isinstance(end, int | float) and 0 <= end <= 1 for end in ends):
        raise ValueError(f"the share of {name} is {share!r}; expected 0 to 1, or (start, end) of these")
    return tuple(float(end) for end in ends)
