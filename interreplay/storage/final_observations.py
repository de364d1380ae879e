"""Tails: the observations that no stored row begins with."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.storage.row_table import RowTable
from interreplay.transitions import as_tensor


class FinalObservations:
    """A growing table for the final observations of episodes and of rows that nothing follows yet.

    Args:
        columns: Parts of one observation, ``{name: (shape, dtype)}``.
        device: Torch device.
    """

    def __init__(self, columns: dict[str, tuple[tuple[int, ...], torch.dtype]], device: torch.device):
        self.records = RowTable(16, columns, device)
        self.used = 0
        self.free: list[int] = []

    @property
    def nbytes(self) -> int:
        return self.records.nbytes

    def put(self, parts: dict[str, Tensor]) -> np.ndarray:
        """Keep n observations; returns where, ``(n,)`` int64."""
        n = len(next(iter(parts.values())))
        reused = [self.free.pop() for _ in range(min(n, len(self.free)))]
        fresh = range(self.used, self.used + n - len(reused))
        self.used = fresh.stop
        if self.used > len(self.records):
            self.records.grow(max(self.used, 2 * len(self.records)))
        index = np.array([*reused, *fresh], dtype=np.int64)
        self.records.scatter(torch.from_numpy(index).to(self.records.device), parts)
        return index

    def put_row(self, parts: dict[str, np.ndarray]) -> int:
        """Keep one observation, of parts of length 1, on the processor; returns where."""
        if self.free:
            index = self.free.pop()
        else:
            index, self.used = self.used, self.used + 1
            if self.used > len(self.records):
                self.records.grow(2 * len(self.records))
        self.records.set_row(index, parts)
        return index

    def drop(self, index: np.ndarray) -> None:
        """Forget the observations at `index` ``(n,)``."""
        self.free.extend(index.tolist())

    def state(self) -> dict[str, Any]:
        return {"rows": self.records.rows[: self.used], "free": list(self.free), "used": self.used}

    def load(self, state: dict[str, Any]) -> None:
        self.used, self.free = int(state["used"]), [int(i) for i in state["free"]]
        if self.used > len(self.records):
            self.records.grow(self.used)
        self.records.rows[: self.used] = as_tensor(state["rows"])
