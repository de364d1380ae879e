"""The contract of what a mix of unrolls draws from."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from torch import Tensor

from interreplay.unrolls.unrolls import Unrolls


class UnrollSource(Protocol):
    """A queue of fresh unrolls, or a store of which some are replayed.

    Attributes:
        name: For results.
        fresh: Whether it gives each unroll once, and never one that was learned from.
    """

    name: str
    fresh: bool

    @property
    def full(self) -> bool:
        """Whether runners are to wait."""
        ...

    def __len__(self) -> int:
        """Return the number of unrolls that lie in it."""
        ...

    def add(self, unrolls: Unrolls, rng: np.random.Generator) -> None:
        """Take new unrolls, oldest first."""

    def can_give(self, count: int) -> bool:
        """Return whether `count` unrolls of a batch may come from here."""
        ...

    def draw(self, count: int, rng: np.random.Generator) -> Unrolls:
        """Return `count` unrolls."""
        ...

    def to_refresh(self, rng: np.random.Generator) -> Unrolls | None:
        """Return unrolls whose distance is to be measured again, None where there are none."""

    def update(
        self,
        unrolls: Unrolls,
        mine: slice | Tensor,
        policy: Tensor | None = None,
        errors: Tensor | None = None,
        distances: Tensor | None = None,
    ) -> None:
        """Take note of what became known of unrolls ``(T, B, ...)``, those of which `mine` came from here."""

    def anneal(self, progress: float) -> None:
        """Move schedules to `progress`, the share of the run that is done, 0 to 1."""

    @property
    def nbytes(self) -> int: ...

    def estimate(self, unrolls: Unrolls) -> int:
        """Return the bytes that it will take when it is full of unrolls like these."""
        ...

    def statistics(self) -> dict[str, float]:
        """Return numbers that describe it now."""
        ...

    def state_view(self) -> dict[str, Any]:
        """Return everything needed to go on, without copying."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
