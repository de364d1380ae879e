"""The contract of neighborhoods: what an anchor may be mixed with."""

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
"""The slot where a row has no neighbor."""
SYNTHETIC = -2
"""The slot of a neighbor that was made from stored rows and is none itself."""


@dataclass(frozen=True)
class Neighbors:
    """Neighbors of n anchors, k each.

    Attributes:
        slots: Where they are stored ``(n, k)`` int64; `NO_NEIGHBOR` where there is none, `SYNTHETIC` for one that was
            made. With k = 0 nothing is mixed.
        rows: The neighbors themselves ``(n, k, ...)``, where some were made, the anchor in the place of missing ones;
            None where all are stored, and the buffer reads them.
        extras: More columns ``(n, ...)`` for the synthesizer, by name; it finds them in ``neighbors.extras``.
    """

    slots: Tensor
    rows: Transitions | None = None
    extras: Mapping[str, Tensor] = field(default_factory=dict)

    def stored_slots(self, anchors: Tensor) -> Tensor:
        """Return the slots ``(n, k)`` to read: the anchor's own, of `anchors` ``(n,)``, where there is no neighbor."""
        return torch.where(self.slots >= 0, self.slots, anchors.unsqueeze(1))


class Neighborhood(Part):
    """Gathers neighbors of anchors.

    A neighborhood implements `neighbor_slots` where neighbors are stored rows, `gather` where they are made.
    """

    def neighbor_slots(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Tensor:
        """Return slots ``(n, k)`` int64 of stored neighbors of the rows in `slots` ``(n,)``, −1 where there is none."""
        raise NotImplementedError(f"{type(self).__name__} has neither neighbor_slots nor gather")

    def gather(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Neighbors:
        """Return the neighbors of the rows in `slots` ``(n,)``, as many per row as the synthesizer uses."""
        return Neighbors(self.neighbor_slots(storage, slots, rng))
