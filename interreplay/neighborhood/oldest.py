"""Copies of the oldest rows, taken before they are overwritten."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from interreplay.storage import Storage

Reader = Callable[["Storage", Tensor], np.ndarray]
"""``(storage, slots (n,)) -> (n, D)``: rows as vectors."""


class Oldest:
    """A ring overwrites its rows in order, so what goes next is known and can be read ahead.

    A neighbourhood hears of rows after they were written over. With this it still gets the vectors that lay there, at
    the cost of one more read per row and memory for `ahead` vectors instead of a second copy of everything.

    Args:
        read: Gives the vectors.
        ahead: Rows to read at a time; overwriting more than half as many at once goes beyond what is kept.
    """

    def __init__(self, read: Reader, ahead: int = 2048):
        self.read, self.ahead = read, ahead
        self.first = 0  # write number of the first row kept
        self.vectors = np.empty((0, 0), np.float32)

    def gone(self, storage: Storage, since: int) -> np.ndarray | None:
        """What was overwritten while `storage` went from `since` rows written to where it is.

        Returns:
            Vectors ``(n, D)`` in write order, or None where they are not all kept.
        """
        begin, end = (max(0, written - storage.capacity) - self.first for written in (since, storage.written))
        return self.vectors[begin:end] if begin >= 0 and end <= len(self.vectors) else None

    def put(self, writes: np.ndarray, vectors: np.ndarray) -> None:
        """Rows of write numbers `writes` ``(n,)`` have become `vectors` ``(n, D)``."""
        kept = (writes >= self.first) & (writes < self.first + len(self.vectors))
        if kept.any():
            self.vectors[writes[kept] - self.first] = vectors[kept]

    def follow(self, storage: Storage) -> None:
        """Read on where rows that may be overwritten next are not kept."""
        oldest = max(0, storage.written - storage.capacity)
        if storage.written + self.ahead // 2 <= storage.capacity:
            return
        stop = self.first + len(self.vectors)
        if self.first <= oldest and min(oldest + self.ahead // 2, storage.written) <= stop:
            return
        writes = torch.arange(oldest, min(oldest + self.ahead, storage.written), device=storage.device)
        self.first, self.vectors = oldest, self.read(storage, torch.remainder(writes, storage.capacity))

    def state_dict(self) -> dict[str, Any]:
        return {"first": self.first, "vectors": self.vectors}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.first, self.vectors = int(state["first"]), np.array(state["vectors"])
