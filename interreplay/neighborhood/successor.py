"""Successor: the step after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from interreplay.neighborhood.base import Neighborhood

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage


class Successor(Neighborhood):
    """The row that continues the anchor: the next step of the same episode in the same environment.

    Found through the links between rows, so interleaved environments and the seam of the ring do not matter.
    The last step of an episode has none, nor has the newest one of a running episode.
    """

    follows_episodes = True

    def neighbor_slots(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Tensor:
        return storage.successor(slots).unsqueeze(1)
