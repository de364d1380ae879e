"""Nearest outcome: what happened to a neighbor, had it happened here."""

from __future__ import annotations

import numpy as np
import torch

from interreplay.synthesis.base import Synthesized
from interreplay.synthesis.blend import Blend
from interreplay.transitions import Observation, Transitions, map_observation


class NearestOutcome(Blend):
    """(s_i, a_i, r_j, s_i + Δs_j), Δs = s' − s: NMER's kNN baseline (Sander et al. 2022, arXiv:2205.09117).

    Nothing is on a line, so there is no λ to draw. What is reported is the anchor's share of the outcome: 0
    where it is the neighbor's, 1 where the row stayed its anchor (terminated ends, chance, no neighbor). The
    discount belongs to the outcome and comes with it; it differs from the anchor's with n-step transitions only.

    Args:
        prob_interpolation: Probability with which a row takes the outcome of its neighbor.
        termination_fn: ``(s, a, s') -> (n,) bool`` tells which rows terminate; without it a row of which either end
            is terminated reverts to its anchor.
        interp_decay: What that probability loses over the run.

    Raises:
        ValueError: When `prob_interpolation` is not a probability, or `interp_decay` is negative.
    """

    keeps_outcome = True

    def __call__(self, anchors: Transitions, neighbors: Transitions, rng: np.random.Generator) -> Synthesized:
        partners = self.partners(neighbors)
        mix = self.revert_where_needed(torch.zeros_like(anchors.rewards), anchors, partners, rng)
        moved = anchors.replace(
            rewards=partners.rewards, next_obs=moved_by(anchors.obs, partners), discounts=partners.discounts
        )
        rows = anchors.where(mix >= 1, moved)
        return Synthesized(self.with_termination(rows, anchors, mix), mix)


def moved_by(obs: Observation, others: Transitions) -> Observation:
    """Return s + Δs for observations `obs` ``(n, ...)`` and the changes Δs of `others` ``(n, ...)``.

    Summed as s'_j + (s_i − s_j), so that a row moved by its own change ends where it did bit for bit.
    """
    return map_observation(lambda s, start, end: end + (s - start), obs, others.obs, others.next_obs)
