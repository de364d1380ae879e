"""`interreplay.learning.sac.PlainSACUpdate` with gradients by hand."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from interreplay.learning.fast.actor_critic import FastActorCriticUpdate, row_loss_weights
from interreplay.learning.fast.optimizer import FastAdam
from interreplay.learning.fast.squashed_gaussian import parameter_gradients
from interreplay.learning.soft_update import SoftUpdate
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

    def finish_policy(self, actor_loss: Tensor, log_probs: Tensor, batch: SampleLike) -> None:
        """Step the temperature, and keep what is reported of the policy.

        Args:
            actor_loss: Before its step.
            log_probs: log π ``(n,)``, or what stands for it.
            batch: What is learned from.
        """
        alpha_loss = self.step_alpha(log_probs, actor_row_weights(batch))
        self.policy_metrics = (actor_loss, alpha_loss, log_probs.mean())

    def finish_update(
        self,
        alpha: Tensor,
        errors: Tensor,
        target: Tensor,
        critic_loss: Tensor,
        scores: dict[str, Tensor],
        rng: torch.Generator,
    ) -> UpdateResult:
        """Move the targets, and start anew where that is due.

        Args:
            alpha: The temperature at the beginning of the update.
            errors: TD errors ``(critics, n)``.
            target: q_t ``(n,)``.
            critic_loss: Before the step.
            scores: What is wanted of the rows.
            rng: Source of what starts anew.
        """
        self.move_targets()
        self.reset_when_due(rng)
        metrics = self.report(critic_loss, alpha, (errors + target).mean())
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
        critic_inputs = torch.cat([obs, repeat_for_views(actions, m)], dim=1)
        errors, critic_loss, target = self.learn_values(critic_inputs, next_obs, m, batch, rng)
        scores = self.scores(self.scores_wanted, rows, obs, m, errors, target)
        self.updates += 1
        if self.actor_due():
            noise = normal(actions, rng)
            losses = self.step_actor(self.actor_views(rows, obs, m), noise, alpha, actor_row_weights(batch), rng)
            self.finish_policy(*losses, batch)
        return self.finish_update(alpha, errors, target, critic_loss, scores, rng)

    def learn_values(
        self, critic_inputs: Tensor, next_obs: Tensor, m: int, batch: SampleLike, rng: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Step the critics; return TD errors ``(critics, n)`` before the step, the loss, and q_t ``(n,)``.

        Args:
            critic_inputs: Rows [s; a] ``(n·m, inputs)``.
            next_obs: Encoded next observations ``(n·m, d)``.
            m: Views of each row.
            batch: What is learned from.
            rng: Source of the policy's noise and of dropout.
        """
        target = self.target_for(batch, next_obs, m, rng)
        return *self.step_critics(critic_inputs, m, target, batch, rng), target

    @torch.no_grad()
    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        noise = normal(repeat_for_views(rows.actions.flatten(1), m), rng)
        sample = self.networks.actor(next_obs, noise)
        critic_inputs = torch.cat([self.target_views(rows, next_obs), sample.actions], dim=1)
        values = self.lowest_target(critic_inputs, rng).squeeze(-1)
        if self.settings.backup_entropy:
            values = values - self.networks.log_alpha.exp() * sample.log_probs
        return rows.rewards + rows.discounts * mean_over_views(values, m)

    @torch.no_grad()
    def step_actor(
        self, obs: Tensor, noise: Tensor, alpha: Tensor, row_weights: Tensor | None, rng: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Step the actor; return its loss and log π(a|s) ``(n,)`` before the step."""
        body = self.networks.actor.body
        forward = body.passes.run(obs)
        sample = SquashedGaussianSample(forward.outputs.squeeze(0), noise)
        share = row_loss_weights(sample.log_probs, row_weights)
        values, of_actions = self.judged(obs, sample.actions, share, rng)
        of_body = parameter_gradients(sample, of_actions, (alpha * share).expand_as(sample.log_probs))
        self.step(body, forward, of_body.unsqueeze(0), "actor", self.actor)
        return weighted_mean(alpha * sample.log_probs - values, row_weights), sample.log_probs
