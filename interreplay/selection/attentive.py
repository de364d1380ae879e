"""Attentive selection: rows that resemble where the agent is now."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from interreplay.selection.candidates import FromCandidates, arrived, ascending, flat, observations
from interreplay.selection.distance import named
from interreplay.transitions import Observation

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage

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

    Raises:
        ValueError: When an argument is out of range.
    """

    def __init__(
        self,
        multiplier: float = 3.0,
        distance: str = "cosine",
        features: Features | None = None,
        norm: float = 2.0,
    ):
        super().__init__(multiplier)
        self.distance, self.norm = distance, float(norm)
        self._features = features
        named(distance, norm, "cosine", "ln")

    def set_features(self, features: Features | None) -> None:
        """Compare states by `features` from now on, or as they are stored for None."""
        self._features = features

    @torch.no_grad()
    def keep(self, storage: Storage, slots: Tensor, size: int) -> Tensor:
        now, seen = arrived(storage), observations(storage, slots)[0]
        if self._features is not None:
            now, seen = self._features(now), self._features(seen)
        distances = named(self.distance, self.norm, "cosine", "ln")(flat(seen), flat(now))
        return slots.index_select(0, ascending(distances)[:size])
