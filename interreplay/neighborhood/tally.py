"""Rows that came and went, on their way into the scale."""

from __future__ import annotations

from typing import Any

import numpy as np

from interreplay.neighborhood.scale import Scale

FULL = 1024  # rows on their way at most


class Tally:
    """Adds rows to a scale many at a time: one by one, that would cost as much as finding their clusters.

    Args:
        scale: Is up to date after `flush`.
    """

    def __init__(self, scale: Scale):
        self.scale = scale
        self.rows: dict[int, list[np.ndarray]] = {1: [], -1: []}
        self.waiting = 0

    def add(self, rows: np.ndarray, sign: int = 1) -> None:
        """Take note of `rows` ``(n, d)``; with `sign` −1, that they are gone."""
        self.rows[sign].append(rows)
        self.waiting += len(rows)
        if self.waiting >= FULL:
            self.flush()

    def remove(self, rows: np.ndarray) -> None:
        """Take note that `rows` ``(n, d)`` are gone."""
        self.add(rows, -1)

    def flush(self) -> None:
        """Bring the scale up to date."""
        for sign, rows in self.rows.items():
            if rows:
                self.scale.add(np.concatenate(rows), sign)
                rows.clear()
        self.waiting = 0

    def restart(self) -> None:
        """Forget everything noted, for an exact count from the beginning."""
        self.flush()
        self.scale.restart()

    def state_dict(self) -> dict[str, Any]:
        waiting = {"came": self.rows[1], "went": self.rows[-1]}
        return {name: np.concatenate(rows) for name, rows in waiting.items() if rows} | {"waiting": self.waiting}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rows = {
            sign: [np.array(state[name])] if name in state else [] for sign, name in ((1, "came"), (-1, "went"))
        }
        self.waiting = int(state["waiting"])
