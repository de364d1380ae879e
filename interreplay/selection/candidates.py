"""Selectors that draw more candidates than a batch needs and keep some of them by rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import check_number
from interreplay.part import AnnealedPart
from interreplay.selection.base import Selector, SlotStore
from interreplay.storage.columns import get_part_name
from interreplay.storage.ring import Storage
from interreplay.transitions import Observation, flat_parts, join_parts, observation_parts

CandidateDistance = Callable[[Any, Tensor], Tensor]
"""Maps ``(stored, slots (m,))`` to distances ``(m,)``."""


class CandidateSelector(AnnealedPart, Selector):
    """Draws ⌊λn⌋ candidates uniformly with replacement; subclasses rank them by distance and keep n.

    λ starts at `multiplier` and is 1 at the end of the run, which is uniform replay. The reported probability of a row
    is the probability 1/N of one candidate. The probability of being kept would require ranking all rows.

    Args:
        multiplier: λ at the start of the run, 1 or more.
        alpha: λ = multiplier − (multiplier − 1)·progress^alpha. 1 is linear; larger values delay the decrease.
        distance_fn: Distances of candidates, replacing those that the subclass computes from stored rows.
    """

    def __init__(self, multiplier: float, alpha: float = 1.0, distance_fn: CandidateDistance | None = None):
        check_number("multiplier", multiplier, 1)
        check_number("alpha", alpha, 0, above_low=True)
        self.multiplier = float(multiplier)
        self.alpha = float(alpha)
        self.distance_fn = distance_fn

    @property
    def current_multiplier(self) -> float:
        """Current number of candidates per row, λ."""
        return self.multiplier - (self.multiplier - 1.0) * self.progress**self.alpha

    def select(self, stored: SlotStore, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        count = max(size, int(self.current_multiplier * size))
        slots = torch.from_numpy(rng.integers(0, len(stored), count))
        if count > size:
            slots = self.keep(stored, slots, size)
        return slots, torch.full((size,), 1.0 / len(stored))

    def keep(self, stored: SlotStore, slots: Tensor, size: int) -> Tensor:
        """Return the slots ``(size,)`` to keep of more than `size` candidates ``(m,)``."""
        raise NotImplementedError

    def distances(self, stored: SlotStore, slots: Tensor) -> Tensor:
        """Return the distance ``(m,)`` of each candidate ``(m,)``."""
        if self.distance_fn is not None:
            return self.distance_fn(stored, slots)
        return self.row_distances(stored, slots)

    def row_distances(self, storage: Any, slots: Tensor) -> Tensor:
        """Return the distance ``(m,)`` of each stored row in `slots` ``(m,)``, without `distance_fn`."""
        raise NotImplementedError


def stable_order(values: Tensor) -> Tensor:
    """Return the indices ``(n,)`` of a stable ascending sort of `values` ``(n,)``; in numpy, which is faster."""
    return torch.from_numpy(np.argsort(values.numpy(), kind="stable"))


def read_observations(storage: Storage, slots: Tensor, column: str | None = None) -> tuple[Observation, Tensor | None]:
    """Return the stored observations of `slots` ``(n,)`` and one more column, without reading whole rows."""
    observed = storage.chain.observed
    names = [*observed, *filter(None, [column])]
    found = storage.records.take(slots, names)
    observation = storage.restore_frames(join_parts({get_part_name(name): found[name] for name in observed}))
    return observation, found.get(column or "")


def flat_floats(values: Observation) -> Tensor:
    """Return observations or network outputs as floats ``(n, d)``; named parts are concatenated by name."""
    columns = []
    for column in flat_parts(dict(sorted(observation_parts(values).items())), 1):
        columns.append(column if column.is_floating_point() else column.float())
    return torch.cat(columns, dim=1)
