"""A set of slots that rows join and leave, and that is drawn from uniformly."""

from __future__ import annotations

import numpy as np


class SlotSet:
    """Some of the slots 0 to `capacity` − 1.

    Args:
        capacity: Number of slots that there are.
        members: Those in it at first ``(m,)``.
    """

    def __init__(self, capacity: int, members: np.ndarray | None = None):
        self._members = np.empty(capacity, np.int32)
        self._place = np.full(capacity, -1, np.int32)  # of each slot among the members
        self._count = 0
        if members is not None:
            self.add(members)

    @property
    def capacity(self) -> int:
        """Number of slots that there are."""
        return len(self._place)

    def __len__(self) -> int:
        return self._count

    @property
    def members(self) -> np.ndarray:
        """The slots ``(m,)`` in it, in an order of their own."""
        return self._members[: self._count]

    @staticmethod
    def nbytes(capacity: int) -> int:
        """Return bytes that a set takes."""
        return 8 * capacity

    def add(self, slots: np.ndarray) -> None:
        """Add `slots` ``(n,)``, each once; those in it already stay."""
        new = slots[self._place[slots] < 0]
        self._members[self._count : self._count + len(new)] = new
        self._place[new] = np.arange(self._count, self._count + len(new))
        self._count += len(new)

    def discard(self, slots: np.ndarray) -> None:
        """Take `slots` ``(n,)`` out, those that are in it."""
        for slot in slots[self._place[slots] >= 0]:
            self._count -= 1
            place, last = self._place[slot], self._members[self._count]
            self._members[place], self._place[last] = last, place
            self._place[slot] = -1

    def contains(self, slots: np.ndarray) -> np.ndarray:
        """Return which of `slots` ``(n,)`` are in it, bool ``(n,)``."""
        return self._place[slots] >= 0
