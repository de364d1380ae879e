"""Successor: the step after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from interreplay.neighborhood.base import Neighborhood
from interreplay.transitions import Transitions

if TYPE_CHECKING:
    from interreplay.storage import Storage


class Successor(Neighborhood):
    """The row that continues the anchor: the next step of the same episode in the same environment.

    Found through the links between rows, so interleaved environments and the seam of the ring do not matter.
    The last step of an episode has none, nor has the newest one of a running episode.
    """

    def gather(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> tuple[Transitions, Tensor]:
        found = storage.successor(slots)
        return storage[torch.where(found >= 0, found, slots).unsqueeze(1)], found.unsqueeze(1)
