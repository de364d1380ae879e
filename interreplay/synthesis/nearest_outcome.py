"""Nearest outcome: the anchor with the reward and the change of state of a neighbor."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from interreplay.synthesis.base import Synthesized
from interreplay.synthesis.mixup import Blend
from interreplay.transitions import Transitions, map_observation


class NearestOutcome(Blend):
    """(s_i, a_i, r_j, s_i + Δs_j), Δs = s' − s: NMER's kNN baseline (Sander et al. 2022, arXiv:2205.09117).

    No λ is drawn. The reported λ is the anchor's share of the outcome: 0 for the neighbor's outcome, 1 for the anchor's
    own (terminated ends, chance, no neighbor). The discount is part of the outcome; it differs from the anchor's with
    n-step transitions only. The arguments are those of `Blend`.
    """

    keeps_outcome = True

    def __call__(self, anchors: Transitions, neighbors: Transitions, rng: np.random.Generator) -> Synthesized:
        partners = self.partners(neighbors)
        mix = self.revert_where_needed(torch.zeros_like(anchors.rewards), anchors, partners, rng)

        def move(state: Tensor, start: Tensor, end: Tensor) -> Tensor:
            return end + (state - start)  # exact for the neighbor's own state

        moved = anchors.replace(
            rewards=partners.rewards,
            next_obs=map_observation(move, anchors.obs, partners.obs, partners.next_obs),
            discounts=partners.discounts,
        )
        return Synthesized(self.with_termination(anchors.where(mix >= 1, moved), anchors, mix), mix)
