"""The queue of fresh unrolls: each is used once, in order of arrival."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from interreplay.unrolls.mixture import UnrollSource
from interreplay.unrolls.unrolls import Unrolls, cat, restore


class FreshQueue(UnrollSource):
    """An `UnrollSource` that returns every unroll exactly once, oldest first. Nothing is ever dropped.

    Unrolls are not copied, so the caller must not modify them.

    Args:
        capacity: Usual number of waiting unrolls, 1 or more, for estimates of memory.

    Attributes:
        taken: Number of unrolls ever added.
        given: Number of unrolls ever drawn.
    """

    fresh = True
    name = "queue"

    def __init__(self, capacity: int = 1):
        self.capacity = capacity
        self.taken = 0
        self.given = 0
        self._waiting: deque[Unrolls] = deque()

    def __len__(self) -> int:
        return self.taken - self.given

    def add(self, unrolls: Unrolls, rng: np.random.Generator | None = None) -> None:
        if unrolls.size:
            self._waiting.append(unrolls)
            self.taken += unrolls.size

    def can_provide(self, count: int) -> bool:
        return len(self) >= count

    def draw(self, count: int, rng: np.random.Generator | None = None) -> Unrolls:
        """Remove and return the `count` oldest unrolls."""
        parts = []
        self.given += count
        while count:
            first = self._waiting.popleft()
            if first.size > count:
                self._waiting.appendleft(first[count:])
                first = first[:count]
            parts.append(first)
            count -= first.size
        return cat(parts)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._waiting)

    def estimate(self, unrolls: Unrolls) -> int:
        return self.capacity * unrolls.nbytes // max(1, unrolls.size)

    def statistics(self) -> dict[str, float]:
        return {"waiting": float(len(self))}

    def state_view(self) -> dict[str, Any]:
        waiting = {}
        if self._waiting:
            waiting = cat(list(self._waiting)).columns()
        return {"waiting": waiting, "taken": self.taken, "given": self.given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.taken = int(state["taken"])
        self.given = int(state["given"])
        self._waiting.clear()
        if state["waiting"]:
            self._waiting.append(restore(state["waiting"]))

    def __repr__(self) -> str:
        return f"FreshQueue({self.capacity})"
