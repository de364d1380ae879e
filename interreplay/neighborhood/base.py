"""The contract of neighborhoods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from interreplay.part import Part
from interreplay.storage.ring import Storage
from interreplay.transitions import Transitions

NO_NEIGHBOR = -1
"""Slot of a missing neighbor."""
SYNTHETIC = -2
"""Slot of a neighbor that was computed from stored rows."""


@dataclass(frozen=True)
class Neighbors:
    """k neighbors for each of n anchors.

    Attributes:
        slots: Slots of the neighbors ``(n, k)`` int64: `NO_NEIGHBOR` for missing ones, `SYNTHETIC` for computed ones.
            With k = 0 nothing is blended.
        rows: The neighbors ``(n, k, ...)`` if some are synthetic, with the anchor in place of missing ones. None if
            all of them are stored; the buffer then reads them.
        extras: Additional columns ``(n, ...)`` by name, which the synthesizer receives as ``neighbors.extras``.
    """

    slots: Tensor
    rows: Transitions | None = None
    extras: Mapping[str, Tensor] = field(default_factory=dict)

    def stored_slots(self, anchors: Tensor) -> Tensor:
        """Return the slots ``(n, k)`` to read; a missing neighbor is replaced by its anchor in `anchors` ``(n,)``."""
        return torch.where(self.slots >= 0, self.slots, anchors.unsqueeze(1))


class Neighborhood(Part):
    """Gathers neighbors of anchors.

    Implement `neighbor_slots` if neighbors are stored rows, and `gather` if they are computed.
    """

    def neighbor_slots(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Tensor:
        """Return slots ``(n, k)`` int64 of neighbors of the rows in `slots` ``(n,)``; −1 for missing ones."""
        raise NotImplementedError(f"{type(self).__name__} implements neither neighbor_slots nor gather")

    def gather(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Neighbors:
        """Return the neighbors of the rows in `slots` ``(n,)``, as many per row as the synthesizer uses."""
        return Neighbors(self.neighbor_slots(storage, slots, rng))
