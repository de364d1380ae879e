"""`interreplay.learning.discrete_sac.PlainDiscreteSACUpdate` with gradients by hand."""

from __future__ import annotations

import torch
from torch import Tensor

from interreplay.learning.fast.actor_critic import beside_outputs, row_loss_weights
from interreplay.learning.fast.sac import FastSoftUpdate
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


class FastDiscreteSACUpdate(FastSoftUpdate):
    """The update of discrete SAC that `interreplay.learning.discrete_sac.PlainDiscreteSACUpdate` defines."""

    def update(self, batch: SampleLike, rng: torch.Generator) -> UpdateResult:
        rows = batch.transitions
        obs, next_obs, m = views(rows, self.networks.encoder)
        taken = repeat_for_views(rows.actions, m)
        alpha = self.networks.log_alpha.detach().exp()
        target = self.target_for(batch, next_obs, m, rng)
        errors, critic_loss = self.step_critics(obs, m, target, batch, rng, taken)
        scores = self.scores(self.scores_wanted, rows, obs, m, errors, target)
        self.updates += 1
        if self.actor_due():
            losses = self.step_policy(self.actor_views(rows, obs, m), alpha, actor_row_weights(batch), rng)
            self.finish_policy(*losses, batch)
        return self.finish_update(alpha, errors, target, critic_loss, scores, rng)

    @torch.no_grad()
    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        log_probs = self.networks.actor(next_obs)
        values = self.lowest_target(self.target_views(rows, next_obs), rng)
        if self.settings.backup_entropy:
            values = values - self.networks.log_alpha.exp() * log_probs
        expected = (log_probs.exp() * values).sum(dim=-1)
        return rows.rewards + rows.discounts * mean_over_views(expected, m)

    @torch.no_grad()
    def step_policy(
        self, obs: Tensor, alpha: Tensor, row_weights: Tensor | None, rng: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Step the actor; return its loss and Σ_a π log π ``(n,)`` before the step.

        The loss of a row is Σ_a π_a·f_a, f_a = α log π_a − Q_a; its gradient by the outputs that π is the softmax of
        is π_a·(f_a − Σ_b π_b·f_b), what log π adds to it being 0.
        """
        body = self.networks.actor.body
        forward = body.passes.run(obs)
        log_probs = forward.outputs.squeeze(0).log_softmax(dim=-1)
        probs = log_probs.exp()
        values = self.judgment(self.networks.critics.outputs(obs, *self.judges(obs, rng)))
        costs = alpha * log_probs - values
        losses = (probs * costs).sum(dim=-1)
        share = beside_outputs(row_loss_weights(losses, row_weights), costs)
        slopes = share * probs * (costs - losses.unsqueeze(-1))
        self.step(body, forward, slopes.unsqueeze(0), "actor", self.actor)
        return weighted_mean(losses, row_weights), (probs * log_probs).sum(dim=-1)
