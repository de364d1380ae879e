"""The contract of neighbourhoods: what an anchor may be mixed with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from interreplay.part import Part
from interreplay.transitions import Transitions

if TYPE_CHECKING:
    from interreplay.storage import Storage


class Neighborhood(Part, ABC):
    """Gathers neighbours of anchors."""

    @abstractmethod
    def gather(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> tuple[Transitions, Tensor]:
        """Neighbours of the rows in `slots` ``(n,)``, as many per row as the synthesizer uses.

        Returns:
            Transitions ``(n, k, ...)`` and their slots ``(n, k)`` int64. Where a row has no neighbour the
            slot is −1 and the transition is the anchor itself.
        """
