"""`interreplay.learning.sac.PlainSACUpdate` with gradients by hand."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from interreplay.learning.actor_critic import SoftUpdate
from interreplay.learning.fast.actor_critic import FastActorCriticUpdate, row_loss_weights
from interreplay.learning.fast.optimizer import FastAdam
from interreplay.learning.fast.squashed_gaussian import parameter_gradients
from interreplay.learning.squashed_gaussian import SquashedGaussianSample
from interreplay.learning.update import (
    SampleLike,
    UpdateResult,
    actor_row_weights,
    mean_over_views,
    normal,
    repeat_for_views,
    views,
    weighted_mean,
)
from interreplay.transitions import Transitions


class FastSoftUpdate(FastActorCriticUpdate, SoftUpdate):
    """The steps that the updates of soft actor-critic share."""

    def finish_update(
        self,
        batch: SampleLike,
        alpha: Tensor,
        errors: Tensor,
        target: Tensor,
        losses: tuple[Tensor, Tensor],
        log_probs: Tensor,
        scores: dict[str, Tensor],
    ) -> UpdateResult:
        """Step the temperature and move the targets.

        Args:
            batch: What is learned from.
            alpha: The temperature before its step.
            errors: TD errors ``(critics, n)``.
            target: q_t ``(n,)``.
            losses: Of the critics and of the actor.
            log_probs: log π ``(n,)``, or what stands for it.
            scores: What is wanted of the rows.
        """
        alpha_loss = self.step_alpha(log_probs, actor_row_weights(batch))
        self.move_targets()
        metrics = torch.stack([*losses, alpha_loss, alpha, (errors + target).mean(), log_probs.mean()])
        return UpdateResult(errors.mean(dim=0), metrics, scores)

    @torch.no_grad()
    def step_alpha(self, log_probs: Tensor, row_weights: Tensor | None) -> Tensor:
        """Step the temperature for log π ``(n,)``; return its loss, which is linear in log α."""
        log_alpha = self.networks.log_alpha
        log_alpha.grad = -weighted_mean(log_probs + self.target_entropy, row_weights)
        loss = log_alpha * log_alpha.grad
        cast(FastAdam, self.optimizers["alpha"]).apply()
        return loss


class FastSACUpdate(FastSoftUpdate):
    """The update of SAC that `interreplay.learning.sac.PlainSACUpdate` defines."""

    def update(self, batch: SampleLike, rng: torch.Generator) -> UpdateResult:
        rows = batch.transitions
        obs, next_obs, m = views(rows, self.networks.encoder)
        actions = rows.actions.flatten(1)
        alpha = self.networks.log_alpha.detach().exp()
        target = self.target_for(batch, next_obs, m, rng)
        critic_inputs = torch.cat([obs, repeat_for_views(actions, m)], dim=1)
        errors, critic_loss = self.step_critics(critic_inputs, m, target, batch)
        scores = self.scores(self.scores_wanted, rows, obs, m, errors, target)
        noise = normal(actions, rng)
        actor_loss, log_probs = self.step_actor(self.actor_views(rows, obs, m), noise, alpha, actor_row_weights(batch))
        return self.finish_update(batch, alpha, errors, target, (critic_loss, actor_loss), log_probs, scores)

    @torch.no_grad()
    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        noise, alpha = normal(repeat_for_views(rows.actions.flatten(1), m), rng), self.networks.log_alpha.exp()
        sample = self.networks.actor(next_obs, noise)
        critic_inputs = torch.cat([self.target_views(rows, next_obs), sample.actions], dim=1)
        values = self.networks.targets(critic_inputs).amin(dim=0)
        return rows.rewards + rows.discounts * mean_over_views(values - alpha * sample.log_probs, m)

    @torch.no_grad()
    def step_actor(
        self, obs: Tensor, noise: Tensor, alpha: Tensor, row_weights: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Step the actor; return its loss and log π(a|s) ``(n,)`` before the step."""
        body = self.networks.actor.body
        forward = body.passes.run(obs)
        sample = SquashedGaussianSample(forward.outputs.squeeze(0), noise)
        judged = self.networks.critics.passes.run(torch.cat([obs, sample.actions], dim=1))
        values, lowest = judged.outputs.min(dim=0, keepdim=True)
        share = row_loss_weights(sample.log_probs, row_weights)
        slopes = torch.zeros_like(judged.outputs).scatter_(0, lowest, 1.0) * -torch.as_tensor(share).unsqueeze(-1)
        of_actions = judged.backward(slopes, columns=slice(obs.shape[1], None))
        assert of_actions is not None
        of_body = parameter_gradients(sample, of_actions, (alpha * share).expand_as(sample.log_probs))
        self.step(body, forward, of_body.unsqueeze(0), "actor", self.actor)
        return weighted_mean(alpha * sample.log_probs - values[0, :, 0], row_weights), sample.log_probs
