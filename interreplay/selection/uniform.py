"""Uniform selection."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from interreplay.selection.base import Selector, SlotStore


class Uniform(Selector):
    """Draws all stored rows with equal probability, with replacement (Lin 1992)."""

    independent_rows = True
    knows_probabilities = True

    def select(self, stored: SlotStore, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        slots = torch.from_numpy(rng.integers(0, len(stored), size)).to(stored.device)
        return slots, torch.full((size,), 1.0 / len(stored), device=stored.device)

    def probabilities(self, slots: Tensor, stored: SlotStore) -> Tensor:
        return torch.full(slots.shape, 1.0 / len(stored), device=stored.device)
