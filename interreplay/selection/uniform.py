"""Uniform selection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from interreplay.selection.base import Selector

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage


class Uniform(Selector):
    """Every stored row with the same probability, with replacement (Lin 1992)."""

    independent_rows = True

    def select(self, storage: Storage, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        slots = torch.from_numpy(rng.integers(0, len(storage), size)).to(storage.device)
        return slots, torch.full((size,), 1.0 / len(storage), device=storage.device)
