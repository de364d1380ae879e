"""Anyone: neighbours drawn from everything stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from interreplay.neighborhood.base import Neighborhood
from interreplay.transitions import Transitions

if TYPE_CHECKING:
    from interreplay.storage import Storage


class Anyone(Neighborhood):
    """One other stored row per anchor, each with the same probability; never the anchor itself.

    A row that is stored alone has no neighbour.
    """

    def gather(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> tuple[Transitions, Tensor]:
        others = len(storage) - 1
        if others == 0:
            found = torch.full_like(slots, -1)
            return storage[slots.unsqueeze(1)], found.unsqueeze(1)
        found = torch.from_numpy(rng.integers(0, others, len(slots))).to(slots.device)
        found += found >= slots  # the others' slots are 0 to N − 1 without the anchor's
        return storage[found.unsqueeze(1)], found.unsqueeze(1)
