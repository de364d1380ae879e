"""What a store of unrolls knows of each slot beside the unroll in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from interreplay.transitions import as_tensor

NAMES = ("write", "replays", "distance", "seen_at")
KEPT = 0.99
"""Of what was learned of the growth of distances, per batch that is measured."""


class SlotNotes:
    """Numbers per slot.

    Args:
        capacity: Number of slots.

    Attributes:
        write: Write number of the unroll in each slot, counting from 0.
        replays: How often it was drawn.
        distance: From the policy, as last measured; 0 for new ones, which that policy has just made.
        seen_at: The store's `clock` at that time.
        growth: By how much a distance grows per tick of the clock, as measured again and again.
    """

    def __init__(self, capacity: int):
        self.write = np.zeros(capacity, np.int64)
        self.replays = np.zeros(capacity, np.int32)
        self.distance = np.zeros(capacity, np.float32)
        self.seen_at = np.zeros(capacity, np.int64)
        self._grown = self._waited = 0.0

    @property
    def growth(self) -> float:
        return max(0.0, self._grown / self._waited) if self._waited else 0.0

    def begin(self, slots: np.ndarray, write: int, clock: int) -> None:
        """Take note of new unrolls in `slots` ``(n,)``, whose write numbers count from `write`."""
        self.write[slots] = np.arange(write, write + len(slots))
        self.replays[slots], self.distance[slots], self.seen_at[slots] = 0, 0.0, clock

    def measured(self, slots: np.ndarray, distances: np.ndarray, clock: int) -> None:
        """Take note of the distances ``(n,)`` of the unrolls in `slots` ``(n,)``, and of what they grew by."""
        self._grown = KEPT * self._grown + float((distances - self.distance[slots]).sum())
        self._waited = KEPT * self._waited + float((clock - self.seen_at[slots]).sum())
        self.distance[slots], self.seen_at[slots] = distances, clock

    def estimated(self, slots: np.ndarray | slice, clock: int) -> np.ndarray:
        """Return distances ``(n,)`` float32 of now: those last measured, and what they will have grown by since."""
        since = (clock - self.seen_at[slots]).astype(np.float32)
        return self.distance[slots] + np.float32(self.growth) * since

    @staticmethod
    def nbytes(capacity: int) -> int:
        """Return bytes of all notes."""
        return capacity * (8 + 4 + 4 + 8)

    def state_view(self, stored: int) -> dict[str, Any]:
        """Return the notes of the first `stored` slots; they share memory."""
        numbers = {name: getattr(self, name)[:stored] for name in NAMES}
        return numbers | {"grown": self._grown, "waited": self._waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        for name in NAMES:
            values = as_tensor(state[name]).numpy()
            getattr(self, name)[: len(values)] = values
        self._grown, self._waited = float(state["grown"]), float(state["waited"])
