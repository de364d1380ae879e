"""What all synthesizers that mix an anchor with a neighbor have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.argument_checks import check_number
from interreplay.environments.terminations import TerminationFn, as_termination_fn
from interreplay.storage.columns import Columns
from interreplay.synthesis.base import Synthesizer, refuse_without_numbers
from interreplay.transitions import Transitions, map_observation, observation_parts, unchecked


class Blend(Synthesizer):
    """Decides which rows are mixed at all, and which of the mixed ones terminate.

    A row of which either end is terminated reverts to its anchor, and its λ is 1: the value beyond a
    terminal state is zero and not a point on the line. So does a row whose choices, those parts of observations
    and actions that are whole numbers, differ from its neighbor's: between choices there is nothing.

    Attributes:
        keeps_outcome: Whether s' is the neighbor's, moved, and not between both, so that its choices may be others.

    Args:
        prob_interpolation: p₀, probability with which a row is mixed at all, else it is its anchor.
        termination_fn: ``(s, a, s') -> (n,) bool`` tells which mixed rows terminate; rows are then mixed
            whatever their ends, and not reverted. An environment's id means its own.
        interp_decay: What p loses over the run: p = max(0, p₀ − interp_decay·progress), set by `anneal`.

    Raises:
        ValueError: When `prob_interpolation` is not a probability, or `interp_decay` is negative.
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
        self.prob_interpolation, self.interp_decay = float(prob_interpolation), float(interp_decay)
        self.progress = 0.0
        self.termination_fn = as_termination_fn(termination_fn)
        self.recomputes_termination = termination_fn is not None

    @property
    def probability(self) -> float:
        """Probability with which a row is mixed now."""
        return max(0.0, self.prob_interpolation - self.interp_decay * self.progress)

    def check(self, columns: Columns) -> None:
        refuse_without_numbers(columns, "blended")

    def anneal(self, progress: float) -> None:
        self.progress = min(max(float(progress), 0.0), 1.0)

    def revert_where_needed(
        self, mix: Tensor, anchors: Transitions, partners: Transitions, rng: np.random.Generator
    ) -> Tensor:
        """Return λ ``(n,)`` as in `mix`, but 1 where a row is to stay its anchor."""
        if self.probability < 1:
            mixed = torch.from_numpy(rng.random(len(anchors)) < self.probability).to(mix.device)
            mix = torch.where(mixed, mix, 1.0)
        if self.termination_fn is None:
            mix = mix.masked_fill(anchors.terminated | partners.terminated, 1.0)
        for mine, theirs in self._choices(anchors, partners):
            mix = mix.masked_fill((mine != theirs).reshape(len(mix), -1).any(1), 1.0)
        return mix

    def _choices(self, anchors: Transitions, partners: Transitions) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the columns in which both have to be equal."""
        names = ("obs",) if self.keeps_outcome else ("obs", "next_obs")
        pairs = [(getattr(anchors, name), getattr(partners, name)) for name in names]
        parts = [(observation_parts(one), observation_parts(other)) for one, other in pairs]
        columns = [(one[name], other[name]) for one, other in parts for name in one]
        for mine, theirs in (*columns, (anchors.actions, partners.actions)):
            if not mine.is_floating_point():
                yield mine, theirs

    @staticmethod
    def partners(neighbors: Transitions) -> Transitions:
        """Return the first neighbor of each row of ``(n, k, ...)``, without episodes, truncation and extras."""

        def first(column: Tensor) -> Tensor:
            return column.select(1, 0)

        return unchecked(
            obs=map_observation(first, neighbors.obs),
            actions=first(neighbors.actions),
            rewards=first(neighbors.rewards),
            next_obs=map_observation(first, neighbors.next_obs),
            terminated=first(neighbors.terminated),
            truncated=None,
            discounts=None if neighbors.discounts is None else first(neighbors.discounts),
        )

    def with_termination(self, rows: Transitions, anchors: Transitions, mix: Tensor) -> Transitions:
        """Return `rows` with the termination that `termination_fn` gives; as they are without one."""
        if self.termination_fn is None:
            return rows
        terminated = self.termination_fn(rows.obs, rows.actions, rows.next_obs)
        terminated = torch.where(mix < 1, terminated.to(torch.bool), anchors.terminated)
        return rows.replace(terminated=terminated, discounts=None)

    def state_dict(self) -> dict[str, Any]:
        return {"progress": self.progress}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.progress = float(state.get("progress", 0.0))
