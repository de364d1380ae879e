"""Attentive selection: rows with states similar to the agent's current state."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from interreplay.selection.base import SlotStore
from interreplay.selection.candidates import (
    CandidateDistance,
    CandidateSelector,
    flat_floats,
    read_observations,
    stable_order,
)
from interreplay.selection.distance import distance_by_name
from interreplay.storage.ring import Storage
from interreplay.transitions import Observation

Features = Callable[[Observation], Tensor]
"""Maps observations ``(n, ...)`` to their representation ``(n, ...)``."""


class Attentive(CandidateSelector):
    """Keeps the n of ⌊λn⌋ uniform candidates with states nearest to the agent's newest state, nearest first.

    Sun et al. 2020, Attentive experience replay, AAAI. The newest state is the next observation of the newest row.
    Ties stay in the order in which they were drawn, and a row that is drawn twice counts twice.

    Args:
        multiplier: λ at the start of the run; `anneal` moves it linearly to 1.
        distance: ``"cosine"``, 1 − cos, or ``"ln"``, the Lᵖ norm of the difference.
        features: Representation in which states are compared, evaluated on the candidates of each batch without
            gradients. By default the stored observations.
        norm: p of ``"ln"``.
        distance_fn: ``(stored, slots) -> distances``, replacing the distances above. With it, any store can be used.
        alpha: λ = multiplier − (multiplier − 1)·progress^alpha.

    Raises:
        ValueError: If an argument is out of range.
    """

    def __init__(
        self,
        multiplier: float = 3.0,
        distance: str = "cosine",
        features: Features | None = None,
        norm: float = 2.0,
        distance_fn: CandidateDistance | None = None,
        alpha: float = 1.0,
    ):
        super().__init__(multiplier, alpha, distance_fn)
        self.features = features
        self._distance = distance_by_name(distance, norm, "cosine", "ln")

    def keep(self, stored: SlotStore, slots: Tensor, size: int) -> Tensor:
        return slots.index_select(0, stable_order(self.distances(stored, slots))[:size])

    @torch.no_grad()
    def row_distances(self, storage: Storage, slots: Tensor) -> Tensor:
        newest = torch.tensor([(storage.written - 1) % storage.capacity])
        current = storage[newest].next_obs
        states = read_observations(storage, slots)[0]
        if self.features is not None:
            current = self.features(current)
            states = self.features(states)
        return self._distance(flat_floats(states), flat_floats(current))
