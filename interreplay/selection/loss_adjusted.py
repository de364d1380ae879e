"""Prioritized selection whose priorities and critics' loss belong together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.argument_checks import check_number
from interreplay.learning.losses import PAL, ByRows, CriticLoss, Huber
from interreplay.learning.update import ACTOR_WEIGHTS, CRITIC_LOSS, LARGEST_ERROR
from interreplay.selection.base import Drawn, Stored
from interreplay.selection.prioritized import Prioritized
from interreplay.selection.sum_tree import SumTree
from interreplay.transitions import as_tensor


class LossAdjusted(Prioritized):
    """P(i) ∝ max(|δ_i|, 1)^α, |δ| the largest over the critics, whose loss is Huber's with d = 1; no weights.

    Fujimoto et al. 2020, arXiv:2007.06049. Where nobody reports the largest error, |δ| is the one that is reported.
    Draws are stratified, as in `Prioritized`; new rows get the largest raw priority so far.

    Args:
        alpha: Exponent α ≥ 0; 0 is uniform.
    """

    critic_loss: CriticLoss | None = Huber(1.0)
    scores_wanted = frozenset({LARGEST_ERROR})

    def __init__(self, alpha: float = 0.4):
        super().__init__(alpha, beta=0.0, final_beta=0.0)

    def errors_of(self, td_errors: Tensor, scores: Mapping[str, Tensor]) -> Tensor:
        return scores.get(LARGEST_ERROR, td_errors)

    def weights(self, stored: Stored, probabilities: Tensor) -> Tensor:
        return torch.ones_like(probabilities)

    def update(self, slots: Tensor, td_errors: Tensor) -> None:
        self.set_priorities(slots, td_errors.detach().abs())

    def set_priorities(self, slots: Tensor, raw: Tensor) -> None:
        """Set raw priorities max(p_i, 1) of rows; of a slot that comes twice the last value stays."""
        super().set_priorities(slots, raw.clamp(min=1.0))


class ActorPrioritized(LossAdjusted):
    """Uniform rows for critics and actor, prioritized ones for the critics, those of least error for the actor.

    Saglam et al. 2022, arXiv:2209.00532. Of a batch come, in this order,

    * rows drawn uniformly: the critics learn from them by `PAL`, and so does the actor;
    * rows drawn as `LossAdjusted` does, for the critics alone, by Huber's loss;
    * as many rows with P(i) ∝ 1 / max(|δ_i|, 1)^α, for the actor alone, whose gradient errs where the critics do.

    What each network learns from is `uniform_share` uniform, and its loss the mean over its own rows. The authors take
    two smaller steps of the critics and of the actor instead of one. All three kinds get new priorities.

    Args:
        uniform_share: Part of each network's rows that are drawn uniformly, 0 to 1.
        alpha: Exponent α, 0 to 1.
    """

    critic_loss = None
    needs = frozenset({ACTOR_WEIGHTS, CRITIC_LOSS})

    def __init__(self, uniform_share: float = 0.5, alpha: float = 0.4):
        super().__init__(alpha)
        check_number("uniform_share", uniform_share, 0, 1)
        check_number("alpha", alpha, 0, 1)
        self.uniform_share = float(uniform_share)
        self._inverse: SumTree | None = None

    def counts(self, size: int) -> tuple[int, int, int]:
        """Return how many of `size` rows are uniform, the critics' and the actor's."""
        uniform = max(round(size * self.uniform_share / (2.0 - self.uniform_share)), int(size < 2))
        critics = (size - uniform) // 2
        return uniform, critics, size - uniform - critics

    def draw(self, stored: Stored, size: int, rng: np.random.Generator) -> Drawn:
        count, (uniform, critics, actor) = len(stored), self.counts(size)
        slots = torch.cat(
            [
                torch.from_numpy(rng.integers(0, count, uniform)).to(stored.device),
                self._prepare(stored).find(self._strata(critics, rng, stored))[0],
                self._inverses().find(self._strata(actor, rng, stored))[0],
            ]
        )
        weights = torch.zeros(2, size, device=stored.device)
        weights[0, : uniform + critics] = size / (uniform + critics)
        weights[1, :uniform] = weights[1, uniform + critics :] = size / (uniform + actor)
        parts = ((uniform, PAL(self.alpha)), (critics, Huber(1.0)), (actor, Huber(1.0)))
        shares = (critics * self.probabilities(slots) + actor * self._inverse_probabilities(slots)) / size
        return Drawn(slots, shares + uniform / (size * count), weights[0], weights[1], ByRows(parts))

    def select(self, stored: Stored, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        return self.draw(stored, size, rng)[:2]

    def _strata(self, count: int, rng: np.random.Generator, stored: Stored) -> Tensor:
        return torch.from_numpy((np.arange(count) + rng.random(count)) / max(count, 1)).to(stored.device)

    def _inverses(self) -> SumTree:
        """Return the tree of 1 / max(|δ|, 1)^α, made of the raw priorities where there is none yet."""
        if self._inverse is None or self._inverse.leaves.device != self._raw.device:
            self._inverse = SumTree(len(self._raw), self._raw.device)
            self._follow_inverse_alpha(self._inverse)
        return self._inverse

    def _inverse_probabilities(self, slots: Tensor) -> Tensor:
        tree = self._inverses()
        return (tree.leaves[slots] / tree.total()).float()

    def _set(self, slots: Tensor, raw: Tensor) -> None:
        tree = self._inverses()
        super()._set(slots, raw)
        tree.set(slots, raw.double() ** -self.alpha)

    def nbytes(self, capacity: int, features: int) -> int:
        return super().nbytes(capacity, features) + SumTree.nbytes(capacity)

    def state_dict(self) -> dict[str, Any]:
        inverse = {} if self._inverse is None else {"inverse_levels": list(self._inverse.levels)}
        return super().state_dict() | inverse

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._inverse = None
        if "inverse_levels" in state:
            self._inverse = SumTree(len(self._raw), self._raw.device)
            self._inverse.levels = [as_tensor(level).clone() for level in state["inverse_levels"]]
            self._follow_inverse_alpha(self._inverse)

    def _follow_inverse_alpha(self, tree: SumTree) -> None:
        """Let the tree of a loaded state follow from its raw priorities by the α of now, which may be another."""
        stored = (self._raw > 0).nonzero().squeeze(1)
        wanted = self._raw[stored].double() ** -self.alpha
        if not torch.allclose(tree.leaves[stored], wanted, rtol=1e-12, atol=0.0):
            tree.set(stored, wanted)
