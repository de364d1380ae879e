"""Anyone: neighbors drawn from everything stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from interreplay.neighborhood.base import NO_NEIGHBOR, Neighborhood
from interreplay.neighborhood.choices import Choices
from interreplay.storage.columns import choice_columns

ROUNDS = 16
"""Draws of a row of the anchor's choices before those are listed."""

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage


class RandomNeighbor(Neighborhood):
    """One other stored row per anchor, each with the same probability; never the anchor itself.

    A row that is stored alone has no neighbor. Where parts of rows are choices, it is one of those with the anchor's.
    """

    def neighbor_slots(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Tensor:
        names = choice_columns(storage.columns)
        return self._of_same_choice(storage, slots, rng) if names else self._any(storage, slots, rng)

    def _of_same_choice(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Tensor:
        """Return what `_any` draws, again and again until choices are equal; after `ROUNDS` out of a list."""
        choices = Choices(storage, count=False)
        found = torch.full_like(slots, NO_NEIGHBOR).unsqueeze(1)
        open_ = torch.arange(len(slots), device=slots.device)
        for _ in range(ROUNDS if len(storage) > 1 else 0):
            drawn = self._any(storage, slots[open_], rng)
            same = choices.same(storage, slots[open_], drawn).squeeze(1)
            found[open_[same]] = drawn[same]
            open_ = open_[~same]
            if not len(open_):
                return found
        stored = torch.arange(len(storage), device=slots.device)
        keys, wanted = choices.keys(storage, stored), choices.keys(storage, slots[open_])
        for row, key in zip(open_.tolist(), wanted, strict=True):
            members = np.flatnonzero(keys == key)
            members = members[members != int(slots[row])]
            if len(members):
                found[row] = int(rng.choice(members))
        return found

    def _any(self, storage: Storage, slots: Tensor, rng: np.random.Generator) -> Tensor:
        others = len(storage) - 1
        if others == 0:
            return torch.full_like(slots, NO_NEIGHBOR).unsqueeze(1)
        drawn = torch.from_numpy(rng.integers(0, others, len(slots))).to(slots.device)
        drawn += drawn >= slots  # the others' slots are 0 to N − 1 without the anchor's
        return drawn.unsqueeze(1)
