"""The contract of neighbourhoods: what an anchor may be mixed with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from interreplay.part import Part
from interreplay.transitions import Transitions

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage


class Neighborhood(Part):
    """Gathers neighbours of anchors.

    A neighbourhood implements `neighbor_slots` where neighbours are stored rows, `gather` where they are made.
    """

    def neighbor_slots(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Tensor | None:
        """Slots ``(n, k)`` int64 of stored neighbours of the rows in `slots` ``(n,)``, −1 where there is none.

        None says that neighbours are not stored rows, and `gather` is to be called.
        """
        return None

    def gather(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> tuple[Transitions, Tensor]:
        """Neighbours of the rows in `slots` ``(n,)``, as many per row as the synthesizer uses.

        Returns:
            Transitions ``(n, k, ...)`` and their slots ``(n, k)`` int64. Where a row has no neighbour the
            slot is −1 and the transition is the anchor itself; where a neighbour is no stored row but was
            made from some the slot is −2, and a batch says −1 but keeps its λ.
        """
        found = self.neighbor_slots(storage, slots, rng)
        if found is None:
            raise NotImplementedError(f"{type(self).__name__} has neither neighbor_slots nor gather")
        return self.view.read(storage, torch.where(found >= 0, found, slots.unsqueeze(1))), found
