"""Online selection."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from interreplay.selection.base import Selector, SlotStore


class Online(Selector):
    """The newest n rows, newest first: learning without replay, as a baseline.

    If fewer rows are stored, they repeat in the same order until the batch is full. Nothing is random; the probability
    of a row is its share of the batch.
    """

    by_write_order = True

    def select(self, stored: SlotStore, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        count = len(stored)
        age = torch.arange(size) % count
        slots = torch.remainder(stored.written - 1 - age, stored.capacity)
        times = size // count + (age < size % count)
        return slots, times.float() / size
