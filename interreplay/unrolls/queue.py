"""The queue of fresh unrolls: each learned from once, in the order in which they came."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from torch import Tensor

from interreplay.transitions import as_tensor
from interreplay.unrolls.unrolls import Unrolls, cat, of_columns


class FreshQueue:
    """An `UnrollSource` that gives every unroll exactly once, oldest first. Nothing is ever dropped.

    A `full` one asks runners to wait: their next request is not sent. What was on its way by then is taken, so that it
    holds at most `capacity` unrolls and those of the requests in flight.

    Unrolls are not copied: whoever adds them does not write to them again.

    Args:
        capacity: Unrolls at which it is full, 1 or more.
        name: For results.

    Attributes:
        taken: Unrolls that came in the whole run.
        given: Unrolls that were drawn.
        most: Largest number that ever waited.

    Raises:
        ValueError: When the capacity is none.
    """

    fresh = True

    def __init__(self, capacity: int = 1, name: str = "queue"):
        if capacity < 1:
            raise ValueError(f"capacity is {capacity}; expected 1 or more unrolls")
        self.capacity, self.name = int(capacity), name
        self.taken = self.given = self.most = 0
        self._waiting: deque[Unrolls] = deque()

    def __len__(self) -> int:
        return self.taken - self.given

    @property
    def full(self) -> bool:
        """Whether runners are to wait."""
        return len(self) >= self.capacity

    def add(self, unrolls: Unrolls, rng: np.random.Generator | None = None) -> None:
        if unrolls.size:
            self._waiting.append(unrolls)
            self.taken += unrolls.size
            self.most = max(self.most, len(self))

    def can_give(self, count: int) -> bool:
        return len(self) >= count

    def draw(self, count: int, rng: np.random.Generator | None = None) -> Unrolls:
        """Return the `count` oldest, which leave.

        Raises:
            ValueError: When there are fewer.
        """
        if len(self) < count:
            raise ValueError(f"{count} fresh unrolls are due and {len(self)} wait; expected as many")
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

    def to_refresh(self, rng: np.random.Generator) -> Unrolls | None:
        return None

    def update(
        self,
        unrolls: Unrolls,
        mine: slice | Tensor,
        policy: Tensor | None = None,
        errors: Tensor | None = None,
        distances: Tensor | None = None,
    ) -> None:
        """Pass over what is known of unrolls that will not come again."""

    def anneal(self, progress: float) -> None:
        """Pass over: there is no schedule."""

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._waiting)

    def estimate(self, unrolls: Unrolls) -> int:
        return self.capacity * unrolls.nbytes // max(1, unrolls.size)

    def statistics(self) -> dict[str, float]:
        """Return how many wait, and the most that ever did."""
        return {"waiting": float(len(self)), "most_waiting": float(self.most)}

    def state_view(self) -> dict[str, Any]:
        waiting = cat(list(self._waiting)).columns() if self._waiting else {}
        return {"waiting": waiting, "taken": self.taken, "given": self.given, "most": self.most}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.taken, self.given, self.most = (int(state[name]) for name in ("taken", "given", "most"))
        columns = {name: as_tensor(column).clone() for name, column in state["waiting"].items()}
        self._waiting = deque([of_columns(columns)] if columns else [])

    def __repr__(self) -> str:
        """Return the capacity."""
        return f"FreshQueue({self.capacity})"
