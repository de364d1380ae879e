"""Mixup: the line between an anchor and its neighbour."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from interreplay.layout import Columns, is_observation
from interreplay.synthesis.base import Synthesizer
from interreplay.synthesis.coefficient import Beta, Coefficient
from interreplay.transitions import Observation, Transitions

TerminationFn = Callable[[Observation, Tensor, Observation], Tensor]


class Mixup(Synthesizer):
    """λ·anchor + (1 − λ)·neighbour over s, a, r and s' (Zhang et al. 2018, arXiv:1710.09412).

    A row of which either end is terminated reverts to its anchor, and its λ is 1: the value beyond a
    terminal state is zero and not a point on the line.

    Args:
        coefficient: Distribution of λ; Beta(.75, .75) by default.
        prob_interpolation: Probability with which a row is blended at all, else it is its anchor.
        termination_fn: ``(s, a, s') -> (n,) bool`` tells which blends terminate; rows are then blended
            whatever their ends, and not reverted.

    Raises:
        ValueError: When `prob_interpolation` is not a probability.
    """

    def __init__(
        self,
        coefficient: Coefficient | None = None,
        prob_interpolation: float = 1.0,
        termination_fn: TerminationFn | None = None,
    ):
        if not 0 <= prob_interpolation <= 1:
            raise ValueError(f"prob_interpolation is {prob_interpolation}; expected 0 to 1")
        self.coefficient = coefficient if coefficient is not None else Beta()
        self.prob_interpolation = float(prob_interpolation)
        self.termination_fn = termination_fn
        self.recomputes_termination = termination_fn is not None

    def check(self, columns: Columns) -> None:
        for name, (_, dtype) in columns.items():
            if (is_observation(name) or name == "actions") and not dtype.is_floating_point:
                raise ValueError(
                    f"{name} of {dtype} cannot be blended; expected floats, or a buffer that blends nothing"
                )

    def __call__(
        self, anchors: Transitions, neighbors: Transitions, rng: np.random.Generator
    ) -> tuple[Transitions, Tensor]:
        partners = neighbors[:, 0]
        mix = torch.from_numpy(self.coefficient(len(anchors), rng)).to(anchors.rewards)
        if self.prob_interpolation < 1:
            blended = torch.from_numpy(rng.random(len(anchors)) < self.prob_interpolation).to(mix.device)
            mix = torch.where(blended, mix, 1.0)
        if self.termination_fn is None:
            mix = mix.masked_fill_(anchors.terminated | partners.terminated, 1.0)
        rows = anchors.blend(partners, mix)
        if self.termination_fn is None:
            return rows, mix
        terminated = self.termination_fn(rows.obs, rows.actions, rows.next_obs)
        terminated = torch.where(mix < 1, terminated.to(torch.bool), anchors.terminated)
        return rows.replace(terminated=terminated, discounts=None), mix
