"""No neighbors."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from interreplay.neighborhood.base import NO_NEIGHBOR, Neighborhood
from interreplay.storage.ring import Storage


class NoNeighbors(Neighborhood):
    """The neighborhood for methods that mix nothing: no row has a neighbor."""

    def neighbor_slots(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Tensor:
        return torch.full((len(slots), 1), NO_NEIGHBOR, dtype=torch.int64, device=slots.device)
