"""Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477)."""

from __future__ import annotations

from torch import Tensor

from interreplay.learning.behavior_cloning import cloning_loss
from interreplay.learning.deterministic import DelayedUpdate, PlainDeterministicUpdate
from interreplay.learning.fast.deterministic import FastTD3Update
from interreplay.learning.update import SampleLike, actor_row_weights


class PlainTD3Update(PlainDeterministicUpdate, DelayedUpdate):
    """The update of TD3 in plain PyTorch: twin critics, and at every d-th update the actor and all targets.

    With q_t = r + discounts·min_j Q'_j(s', a'), a' = clip(π'(s') + clip(ε, −c, c), −1, 1), ε ~ N(0, σ²):

    * critics: Σ_j mean(v·w·δ_j²), δ_j = Q_j(s, a) − q_t, w the importance weights, Q_j and q_t means over a row's
      views; with `huber_delta` twice Huber's loss in place of δ², with `pal_alpha` twice PAL, and what the rows bring
      before either;
    * actor: mean(−v·Q_1(s, π(s))).

    v are the row weights, 1 where there are none; the actor's times the actor's weights. The L2 terms are in the
    gradients, not in the reported losses. The minimum of the target is over the critics drawn for this update where
    there is a `target_subset`; the actor may maximize the least or the mean of them (`actor_target`); every pass of
    critics or targets has dropout of its own (`critic_dropout`). With `bc_alpha` the actor's loss is that of TD3+BC
    (Fujimoto & Gu 2021, arXiv:2106.06860), `interreplay.learning.behavior_cloning.cloning_loss`.
    """

    def objective(self, values: Tensor, actions: Tensor, batch: SampleLike) -> Tensor:
        if self.settings.bc_alpha is None:
            return super().objective(values, actions, batch)
        taken, weights = batch.transitions.actions.flatten(1), actor_row_weights(batch)
        return cloning_loss(values, actions, taken, weights, self.settings.bc_alpha)


TD3Update = FastTD3Update
"""What learns where nothing else is asked for: `PlainTD3Update`, with gradients by hand."""
