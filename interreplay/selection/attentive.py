"""Attentive selection: rows that resemble where the agent is now."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from interreplay.selection.base import Stored
from interreplay.selection.candidates import FromCandidates, HowFar, arrived, ascending, flat, observations
from interreplay.selection.distance import named
from interreplay.storage.ring import Storage
from interreplay.transitions import Observation

Features = Callable[[Observation], Tensor]
"""Observations ``(n, ...)`` to their representation ``(n, ...)``."""


class Attentive(FromCandidates):
    """Of ⌊λn⌋ uniform candidates the n whose states are nearest to the agent's newest state, nearest first.

    Sun et al. 2020, Attentive experience replay, AAAI. The newest state is the next observation of the newest
    row: where the agent arrived last. Equally near candidates stay in the order in which they were drawn, and one
    drawn twice counts twice.

    Args:
        multiplier: λ at the start of the run, which `anneal` moves linearly to 1.
        distance: ``"cosine"``, 1 − cos, or ``"ln"``, the Lᵖ norm of the difference.
        features: Representation of states in which they are compared, evaluated on the candidates of every batch
            without gradients; the stored observations as they are by default. May be set later with `set_features`.
        norm: p of ``"ln"``.
        how_far: ``(stored, slots) -> distances`` in place of all that: what is stored need not be rows then.
        alpha: λ = multiplier − (multiplier − 1)·progress^alpha.

    Raises:
        ValueError: When an argument is out of range.
    """

    def __init__(
        self,
        multiplier: float = 3.0,
        distance: str = "cosine",
        features: Features | None = None,
        norm: float = 2.0,
        how_far: HowFar | None = None,
        alpha: float = 1.0,
    ):
        super().__init__(multiplier, alpha, how_far)
        self.distance, self.norm = distance, float(norm)
        self._features = features
        named(distance, norm, "cosine", "ln")

    def set_features(self, features: Features | None) -> None:
        """Compare states by `features` from now on, or as they are stored for None."""
        self._features = features

    def keep(self, stored: Stored, slots: Tensor, size: int) -> Tensor:
        return slots.index_select(0, ascending(self.distances(stored, slots))[:size])

    @torch.no_grad()
    def measured(self, storage: Storage, slots: Tensor) -> Tensor:
        """Return how far the states of the rows in `slots` ``(m,)`` are from the agent's newest state."""
        now, seen = arrived(storage), observations(storage, slots)[0]
        if self._features is not None:
            now, seen = self._features(now), self._features(seen)
        return named(self.distance, self.norm, "cosine", "ln")(flat(seen), flat(now))
