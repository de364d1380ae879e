"""Mixup: points on the line between an anchor and its neighbor, and the base class of methods that blend rows."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from interreplay.environments.terminations import TerminationFn, as_termination_fn
from interreplay.errors import check_number
from interreplay.part import AnnealedPart
from interreplay.storage.columns import Columns
from interreplay.synthesis.base import Synthesized, Synthesizer, reject_without_floats
from interreplay.synthesis.coefficient import Beta, Coefficient, check_coefficient, draw_coefficients
from interreplay.transitions import Transitions, map_observation, observation_parts

__all__ = ["Blend", "Mixup", "TerminationFn"]


class Blend(AnnealedPart, Synthesizer):
    """Determines which rows are blended and which of the blended rows terminate.

    A row with a terminated end reverts to its anchor, with λ = 1: the value beyond a terminal state is zero and not a
    point on the line. A row also reverts if its discrete values (integer parts of observations and actions) differ from
    its neighbor's.

    Attributes:
        keeps_outcome: Whether s' is the neighbor's outcome instead of a blend, so that its discrete values may differ.

    Args:
        prob_interpolation: p₀, the probability with which a row is blended; otherwise it is its anchor.
        termination_fn: ``(s, a, s') -> (n,) bool``, which computes the termination of blended rows; rows with a
            terminated end are then blended as well. An environment's id selects the function of that environment.
        interp_decay: Decrease of p over the run: p = max(0, p₀ − interp_decay·progress), set by `anneal`.
    """

    keeps_outcome = False

    def __init__(
        self,
        prob_interpolation: float = 1.0,
        termination_fn: TerminationFn | str | None = None,
        interp_decay: float = 0.0,
    ):
        check_number("prob_interpolation", prob_interpolation, 0, 1)
        check_number("interp_decay", interp_decay, 0)
        self.prob_interpolation = float(prob_interpolation)
        self.interp_decay = float(interp_decay)
        self.termination_fn = as_termination_fn(termination_fn)
        self.recomputes_termination = termination_fn is not None

    @property
    def probability(self) -> float:
        """Current probability with which a row is blended."""
        return max(0.0, self.prob_interpolation - self.interp_decay * self.progress)

    def check(self, columns: Columns) -> None:
        reject_without_floats(columns, "blended")

    def revert_where_needed(
        self, mix: Tensor, anchors: Transitions, partners: Transitions, rng: np.random.Generator
    ) -> Tensor:
        """Return λ ``(n,)`` as in `mix`, but 1 for rows that revert to their anchors."""
        if self.probability < 1:
            blended = torch.from_numpy(rng.random(len(anchors)) < self.probability)
            mix = torch.where(blended, mix, 1.0)
        if self.termination_fn is None:
            mix = mix.masked_fill(anchors.terminated | partners.terminated, 1.0)
        pairs = [(anchors.obs, partners.obs), (anchors.actions, partners.actions)]
        if not self.keeps_outcome:
            pairs.append((anchors.next_obs, partners.next_obs))
        for one, other in pairs:
            for name, part in observation_parts(one).items():
                if not part.is_floating_point():
                    differs = part != observation_parts(other)[name]
                    mix = mix.masked_fill(differs.reshape(len(mix), -1).any(1), 1.0)
        return mix

    @staticmethod
    def partners(neighbors: Transitions) -> Transitions:
        """Return the first neighbor of each row of ``(n, k, ...)``, without extras, which can have a value per row."""
        return neighbors.replace(extras={}).map(lambda column: column.select(1, 0))

    def with_termination(self, rows: Transitions, anchors: Transitions, mix: Tensor) -> Transitions:
        """Return `rows` with the termination computed by `termination_fn`; unchanged without one."""
        if self.termination_fn is None:
            return rows
        terminated = self.termination_fn(rows.obs, rows.actions, rows.next_obs)
        terminated = torch.where(mix < 1, terminated.to(torch.bool), anchors.terminated)
        return rows.replace(terminated=terminated, discounts=None)


class Mixup(Blend):
    """λ·anchor + (1 − λ)·neighbor over s, a, r and s' (Zhang et al. 2018, arXiv:1710.09412).

    Args:
        coefficient: Distribution of λ; Beta(.75, .75) by default.
        prob_interpolation: Probability with which a row is blended; otherwise it is its anchor.
        termination_fn: ``(s, a, s') -> (n,) bool``, or an environment's id; see `Blend`.
        interp_decay: Decrease of `prob_interpolation` over the run.

    Raises:
        ValueError: If `prob_interpolation` is not a probability, `interp_decay` is negative, or `coefficient` is not a
            function.
    """

    def __init__(
        self,
        coefficient: Coefficient | None = None,
        prob_interpolation: float = 1.0,
        termination_fn: TerminationFn | str | None = None,
        interp_decay: float = 0.0,
    ):
        super().__init__(prob_interpolation, termination_fn, interp_decay)
        self.coefficient = Beta() if coefficient is None else check_coefficient(coefficient)

    def __call__(self, anchors: Transitions, neighbors: Transitions, rng: np.random.Generator) -> Synthesized:
        partners = self.partners(neighbors)
        mix = torch.from_numpy(draw_coefficients(self.coefficient, len(anchors), rng)).to(anchors.rewards)
        mix = self.revert_where_needed(mix, anchors, partners, rng)
        return Synthesized(self.with_termination(anchors.blend(partners, mix), anchors, mix), mix)


class NearestOutcome(Blend):
    """(s_i, a_i, r_j, s_i + Δs_j), Δs = s' − s: the kNN baseline in NMER's code (github.com/rmsander/interreplay).

    No λ is drawn. The reported λ is the anchor's share of the outcome: 0 for the neighbor's outcome, 1 for the anchor's
    own (terminated ends, chance, no neighbor). The discount is part of the outcome; it differs from the anchor's with
    n-step transitions only. The arguments are those of `Blend`.
    """

    keeps_outcome = True

    def __call__(self, anchors: Transitions, neighbors: Transitions, rng: np.random.Generator) -> Synthesized:
        partners = self.partners(neighbors)
        mix = self.revert_where_needed(torch.zeros_like(anchors.rewards), anchors, partners, rng)

        def move(state: Tensor, start: Tensor, end: Tensor) -> Tensor:
            if not end.is_floating_point():
                return end  # the anchor's discrete values equal the neighbor's, or the row reverts
            return end + (state - start)  # exact for the neighbor's own state

        moved = anchors.replace(
            rewards=partners.rewards,
            next_obs=map_observation(move, anchors.obs, partners.obs, partners.next_obs),
            discounts=anchors.discounts if partners.discounts is None else partners.discounts,
        )
        return Synthesized(self.with_termination(anchors.where(mix >= 1, moved), anchors, mix), mix)
