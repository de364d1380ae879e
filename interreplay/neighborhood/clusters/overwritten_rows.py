"""Copies of the oldest rows, taken before they are overwritten."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage

Reader = Callable[["Storage", np.ndarray], np.ndarray]
"""``(storage, slots (n,)) -> (n, D)``: rows as vectors."""


class Oldest:
    """A ring overwrites its rows in order, so what goes next is known and can be read ahead.

    A neighbourhood hears of rows after they were written over. With this it still gets the vectors that lay there, at
    the cost of one more read per row and memory for `ahead` vectors instead of a second copy of everything.

    Args:
        capacity: Number of slots.
        ahead: Rows to copy at a time.
    """

    def __init__(self, capacity: int, ahead: int):
        self.capacity, self.ahead = capacity, ahead
        self.first = 0  # write number of the first row copied
        self.vectors = np.empty((0, 0), np.float32)

    def copy(self, storage: Storage, read: Reader) -> None:
        """Copy the oldest rows, if any of them may be overwritten soon."""
        if storage.written + self.ahead > self.capacity:
            self.first = max(0, storage.written - self.capacity)
            writes = np.arange(self.first, min(self.first + self.ahead, storage.written))
            self.vectors = read(storage, writes % self.capacity)

    def gone(self, since: int, written: int) -> np.ndarray | None:
        """What was overwritten from `since` rows written to `written`, both since the last copy was taken.

        Returns:
            Vectors ``(n, D)`` in write order, or None where they were not all copied.
        """
        before = self.capacity + self.first
        begin, end = max(0, since - before), max(0, written - before)
        return self.vectors[begin:end] if end <= len(self.vectors) else None

    def put(self, writes: np.ndarray, vectors: np.ndarray) -> None:
        """Rows of write numbers `writes` ``(n,)`` have become `vectors` ``(n, D)``."""
        copied = (writes >= self.first) & (writes < self.first + len(self.vectors))
        if copied.any():
            self.vectors[writes[copied] - self.first] = vectors[copied]

    def state_dict(self) -> dict[str, Any]:
        return {"first": self.first, "vectors": self.vectors}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.first, self.vectors = int(state["first"]), np.array(state["vectors"])
