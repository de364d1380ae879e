"""Prioritized selection with a critic loss that matches the priorities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import check_number
from interreplay.learning.losses import PAL, CriticLoss, Huber, RowwiseLoss
from interreplay.learning.update import ACTOR_WEIGHTS, CRITIC_LOSS, LARGEST_ERROR
from interreplay.selection.base import Draw, SlotStore
from interreplay.selection.prioritized import Prioritized
from interreplay.selection.sum_tree import SumTree, strata
from interreplay.transitions import as_tensor


class LossAdjusted(Prioritized):
    """P(i) ∝ max(|δ_i|, 1)^α with the Huber loss (d = 1) and no weights; |δ| is the largest over the critics.

    Fujimoto et al. 2020, arXiv:2007.06049. If the algorithm does not report the largest error, |δ| is the reported
    error. Draws are stratified as in `Prioritized`. New rows receive the largest raw priority so far.

    Args:
        alpha: Exponent α ≥ 0; 0 is uniform.
    """

    critic_loss: CriticLoss | None = Huber(1.0)
    scores_wanted = frozenset({LARGEST_ERROR})

    def __init__(self, alpha: float = 0.4):
        super().__init__(alpha, beta=0.0, final_beta=0.0)

    def errors_of(self, td_errors: Tensor, scores: Mapping[str, Tensor]) -> Tensor:
        return scores.get(LARGEST_ERROR, td_errors)

    def update(self, slots: Tensor, td_errors: Tensor) -> None:
        self.set_priorities(slots, td_errors.detach().abs())

    def set_priorities(self, slots: Tensor, raw: Tensor) -> None:
        """Set raw priorities max(p_i, 1) of rows; for duplicate slots, the last value is used."""
        super().set_priorities(slots, raw.clamp(min=1.0))


class ActorPrioritized(LossAdjusted):
    """Rows with large TD errors for the critics, with small TD errors for the actor, and uniform rows for both.

    Saglam et al. 2022, arXiv:2209.00532. A batch contains, in this order,

    * uniform rows, from which the critics (with `PAL`) and the actor learn;
    * rows drawn as by `LossAdjusted`, from which the critics learn with the Huber loss;
    * rows drawn with P(i) ∝ 1 / max(|δ_i|, 1)^α, from which the actor learns, because its gradient is wrong where the
      critics are wrong.

    The loss of each network is the mean over its own rows; the share `uniform_share` of them is uniform. The authors
    take two smaller steps of critics and actor instead of one. The priorities of all rows are updated; the authors
    update those of the critics' rows.

    Args:
        uniform_share: Share of uniform rows among the rows of each network, 0 to 1.
        alpha: Exponent α, 0 to 1.
    """

    critic_loss = None
    knows_probabilities = False  # `probabilities` holds for the critics' rows only
    needs = frozenset({ACTOR_WEIGHTS, CRITIC_LOSS})

    def __init__(self, uniform_share: float = 0.5, alpha: float = 0.4):
        super().__init__(alpha)
        check_number("uniform_share", uniform_share, 0, 1)
        check_number("alpha", alpha, 0, 1)
        self.uniform_share = float(uniform_share)
        self._inverse: SumTree | None = None

    def counts(self, size: int) -> tuple[int, int, int]:
        """Return the number of uniform rows, critic rows and actor rows among `size` rows."""
        uniform = max(round(size * self.uniform_share / (2.0 - self.uniform_share)), int(size < 2))
        critics = (size - uniform) // 2
        return uniform, critics, size - uniform - critics

    def draw(self, stored: SlotStore, size: int, rng: np.random.Generator) -> Draw:
        uniform, critics, actor = self.counts(size)
        slots = torch.cat(
            [
                torch.from_numpy(rng.integers(0, len(stored), uniform)),
                self._tree.find(strata(critics, rng))[0],
                self._inverses().find(strata(actor, rng))[0],
            ]
        )
        critic_weights = torch.zeros(size)
        critic_weights[: uniform + critics] = size / (uniform + critics)
        actor_weights = torch.zeros(size)
        actor_weights[:uniform] = size / (uniform + actor)
        actor_weights[uniform + critics :] = size / (uniform + actor)
        inverse = self._inverses()
        inverse_probabilities = (inverse.leaves[slots] / inverse.total()).float()
        shares = (critics * self.probabilities(slots) + actor * inverse_probabilities) / size
        losses = ((uniform, PAL(self.alpha)), (critics, Huber(1.0)), (actor, Huber(1.0)))
        return Draw(
            slots,
            probabilities=shares + uniform / (size * len(stored)),
            weights=critic_weights,
            actor_weights=actor_weights,
            critic_loss=RowwiseLoss(losses),
        )

    def _inverses(self) -> SumTree:
        """Return the tree of 1 / max(|δ|, 1)^α, computed from the raw priorities on the first call."""
        if self._inverse is None:
            self._inverse = SumTree(len(self._raw))
            self._inverse.set_powers(self._raw, -self.alpha)
        return self._inverse

    def _set(self, slots: Tensor, raw: Tensor) -> None:
        tree = self._inverses()
        super()._set(slots, raw)
        tree.set(slots, raw.double() ** -self.alpha)

    def nbytes(self, capacity: int, features: int) -> int:
        return super().nbytes(capacity, features) + SumTree.nbytes(capacity)

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        if self._inverse is not None:
            state["inverse_levels"] = list(self._inverse.levels)
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._inverse = None
        if "inverse_levels" in state:
            self._inverse = SumTree(len(self._raw))
            self._inverse.levels = [as_tensor(level).clone() for level in state["inverse_levels"]]
            self._inverse.set_powers(self._raw, -self.alpha)
