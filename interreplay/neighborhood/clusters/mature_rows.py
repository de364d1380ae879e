"""Which rows have got the outcome that they will keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from interreplay.storage.read_views import ReadView
from interreplay.storage.ring import Storage

MOST = 4096  # rows that wait at most; the oldest stop waiting and never mature


class MatureRows:
    """n-step transitions change until n − 1 rows have followed, or their episode has ended; then they are mature.

    Args:
        capacity: Number of slots.
        view: How rows are read.
    """

    def __init__(self, capacity: int, view: ReadView):
        self.view = view
        self.slots = np.zeros(capacity, bool)  # whether each slot's row is mature
        self.waiting = np.empty(0, np.int64)

    def __call__(self, storage: Storage, added: np.ndarray) -> np.ndarray:
        """Return the slots of the rows that matured just now, given those in which rows were `added` ``(n,)``."""
        self.slots[added] = False
        waiting = np.concatenate([self.waiting[~np.isin(self.waiting, added)], added])
        ripe = self.view.mature(storage, torch.from_numpy(waiting).to(storage.device)).numpy(force=True)
        self.waiting = waiting[~ripe][-MOST:]
        self.slots[waiting[ripe]] = True
        return waiting[ripe]

    def state_dict(self) -> dict[str, Any]:
        """Return everything; the arrays share memory."""
        return {"slots": self.slots, "waiting": self.waiting}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self.slots = np.array(state["slots"], bool)
        self.waiting = np.array(state["waiting"], np.int64)
