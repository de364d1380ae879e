"""No neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from interreplay.neighborhood.base import Neighborhood
from interreplay.transitions import Transitions

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage


class Alone(Neighborhood):
    """The neighbourhood for methods that mix nothing: every row has itself, with slot −1."""

    def gather(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> tuple[Transitions, Tensor]:
        return self.view.read(storage, slots).map(lambda column: column.unsqueeze(1)), torch.full(
            (len(slots), 1), -1, dtype=torch.int64, device=slots.device
        )
