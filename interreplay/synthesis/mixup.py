"""Mixup: points on the line between an anchor and its neighbor."""

from __future__ import annotations

import numpy as np
import torch

from interreplay.synthesis.base import Synthesized
from interreplay.synthesis.blend import Blend, TerminationFn
from interreplay.synthesis.coefficient import Beta, Coefficient
from interreplay.transitions import Transitions

__all__ = ["Mixup", "TerminationFn"]


class Mixup(Blend):
    """λ·anchor + (1 − λ)·neighbor over s, a, r and s' (Zhang et al. 2018, arXiv:1710.09412).

    Args:
        coefficient: Distribution of λ; Beta(.75, .75) by default.
        prob_interpolation: Probability with which a row is blended; otherwise it is its anchor.
        termination_fn: ``(s, a, s') -> (n,) bool``, or an environment's id; see `Blend`.
        interp_decay: Decrease of that probability over the run.

    Raises:
        ValueError: If `prob_interpolation` is not a probability or `interp_decay` is negative.
    """

    def __init__(
        self,
        coefficient: Coefficient | None = None,
        prob_interpolation: float = 1.0,
        termination_fn: TerminationFn | str | None = None,
        interp_decay: float = 0.0,
    ):
        super().__init__(prob_interpolation, termination_fn, interp_decay)
        self.coefficient = coefficient if coefficient is not None else Beta()

    def __call__(self, anchors: Transitions, neighbors: Transitions, rng: np.random.Generator) -> Synthesized:
        partners = self.partners(neighbors)
        mix = torch.from_numpy(self.coefficient(len(anchors), rng)).to(anchors.rewards)
        mix = self.revert_where_needed(mix, anchors, partners, rng)
        return Synthesized(self.with_termination(anchors.blend(partners, mix), anchors, mix), mix)
