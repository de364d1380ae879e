"""Anyone: neighbors drawn from everything stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from interreplay.neighborhood.base import NO_NEIGHBOR, Neighborhood

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage


class RandomNeighbor(Neighborhood):
    """One other stored row per anchor, each with the same probability; never the anchor itself.

    A row that is stored alone has no neighbor.
    """

    def neighbor_slots(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Tensor:
        others = len(storage) - 1
        if others == 0:
            return torch.full_like(slots, NO_NEIGHBOR).unsqueeze(1)
        drawn = rng.integers(0, others, len(slots))
        drawn += drawn >= slots.numpy(force=True)  # the others' slots are 0 to N − 1 without the anchor's
        return torch.from_numpy(drawn).to(slots.device).unsqueeze(1)
