"""The contract of selectors: which stored rows become anchors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from interreplay.part import Part

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage


class Selector(Part, ABC):
    """Draws anchors. One whose rows are `independent_rows` says so."""

    independent_rows = False

    @abstractmethod
    def select(self, storage: Storage, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Draw `size` stored rows.

        Returns:
            Slots ``(size,)`` int64 and the probability ``(size,)`` with which each was drawn.
        """

    def weights(self, storage: Storage, probabilities: Tensor) -> Tensor:
        """Importance weights ``(n,)`` of rows drawn with `probabilities` ``(n,)``; all 1 by default."""
        return torch.ones_like(probabilities)

    def update(self, slots: Tensor, td_errors: Tensor) -> None:
        """Take note of the TD errors ``(n,)`` of the rows in `slots` ``(n,)``."""
