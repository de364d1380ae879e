"""Online selection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from interreplay.selection.base import Selector

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage


class Online(Selector):
    """The newest n rows, newest first: learning from what has just happened, the baseline without replay.

    With fewer rows stored than asked for, they come again in the same order until the batch is full. Nothing is
    drawn; the probability of a row is its share of the batch.
    """

    def select(self, storage: Storage, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        stored = len(storage)
        age = torch.arange(size, device=storage.device) % stored
        slots = torch.remainder(storage.written - 1 - age, storage.capacity)
        times = size // stored + (age < size % stored)
        return slots, times.float() / size
