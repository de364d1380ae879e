"""Deep deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971)."""

from __future__ import annotations

import torch
from torch import Tensor

from interreplay.learning.deterministic import ImmediateUpdate
from interreplay.learning.fast.deterministic import FastDDPGUpdate
from interreplay.learning.update import (
    SampleLike,
    UpdateResult,
    actor_row_weights,
    mean_over_views,
    repeat_for_views,
    views,
    weighted_mean,
)
from interreplay.transitions import Transitions


class PlainDDPGUpdate(ImmediateUpdate):
    """The update of DDPG in plain PyTorch: one critic or more, the actor and all targets, in this order.

    With q_t = r + discounts·min_j Q'_j(s', π'(s')):

    * critics: Σ_j mean(v·w·δ_j²), δ_j = Q_j(s, a) − q_t, w the importance weights, Q_j and q_t means over a row's
      views; with `huber_delta` twice Huber's loss in place of δ², with `pal_alpha` twice PAL, and what the rows bring
      before either;
    * actor: mean(−v·Q_1(s, π(s))).

    v are the row weights, 1 where there are none; the actor's times the actor's weights. The L2 terms are
    in the gradients, not in the reported losses.
    Arguments are those of `ImmediateUpdate`.
    """

    def update(self, batch: SampleLike, rng: torch.Generator) -> UpdateResult:
        rows, nets = batch.transitions, self.networks
        obs, next_obs, m = views(rows, nets.encoder)
        actions = repeat_for_views(rows.actions.flatten(1), m)

        target = self.target_for(batch, next_obs, m, rng)

        errors = mean_over_views(nets.critics(torch.cat([obs, actions], dim=1)), m) - target
        scores = self.scores(self.scores_wanted, rows, obs, m, errors, target)
        losses = batch.weights * 2.0 * self.loss_for(batch).values(errors)
        critic_loss = weighted_mean(losses, batch.row_weights).sum()
        self.minimize(critic_loss, "critic")

        actor_obs = self.actor_views(rows, obs, m)
        first_values = nets.critics(torch.cat([actor_obs, nets.actor(actor_obs)], dim=1))[0]
        actor_loss = -weighted_mean(first_values, actor_row_weights(batch))
        self.minimize(actor_loss, "actor")

        self.move_targets()
        self.updates += 1
        self.actor_loss = actor_loss.detach()
        metrics = torch.stack([critic_loss, actor_loss, (errors + target).mean()])
        return UpdateResult(errors.mean(dim=0).detach(), metrics.detach(), scores)

    @torch.no_grad()
    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        next_obs = self.target_views(rows, next_obs)
        next_actions = self.networks.target_actor(next_obs)
        values = self.networks.targets(torch.cat([next_obs, next_actions], dim=1)).amin(dim=0)
        return rows.rewards + rows.discounts * mean_over_views(values, m)


DDPGUpdate = FastDDPGUpdate
"""What learns where nothing else is asked for: `PlainDDPGUpdate`, with gradients by hand."""
