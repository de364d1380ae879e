"""`interreplay.learning.td3.PlainTD3Update` and `interreplay.learning.ddpg.PlainDDPGUpdate` with gradients by hand."""

from __future__ import annotations

import torch
from torch import Tensor

from interreplay.learning.behavior_cloning import cloning_loss, distance_slopes, value_scale
from interreplay.learning.deterministic import DelayedUpdate, DeterministicUpdate, ImmediateUpdate
from interreplay.learning.fast.actor_critic import FastActorCriticUpdate, row_loss_weights
from interreplay.learning.update import (
    SampleLike,
    UpdateResult,
    actor_row_weights,
    repeat_for_views,
    views,
    weighted_mean,
)


class FastDeterministicUpdate(FastActorCriticUpdate, DeterministicUpdate):
    """An update of m critics and, when it is due, of the actor and all targets."""

    scale = 2.0

    def update(self, batch: SampleLike, rng: torch.Generator) -> UpdateResult:
        rows = batch.transitions
        obs, next_obs, m = views(rows, self.networks.encoder)
        actions = repeat_for_views(rows.actions.flatten(1), m)
        target = self.target_for(batch, next_obs, m, rng)
        errors, critic_loss = self.step_critics(torch.cat([obs, actions], dim=1), m, target, batch, rng)
        scores = self.scores(self.scores_wanted, rows, obs, m, errors, target)
        self.updates += 1
        if self.actor_due():
            self.actor_loss = self.step_actor(self.actor_views(rows, obs, m), batch, rng)
            self.move_targets()
        self.reset_when_due(rng)
        metrics = torch.stack([critic_loss, self.actor_loss.to(critic_loss), (errors + target).mean()])
        return UpdateResult(errors.mean(dim=0), metrics, scores)

    @torch.no_grad()
    def step_actor(self, obs: Tensor, batch: SampleLike, rng: torch.Generator) -> Tensor:
        """Step the actor by the critics' opinion of it; return its loss before the step."""
        body, row_weights = self.networks.actor.body, actor_row_weights(batch)
        forward = body.passes.run(obs)
        actions = forward.outputs.squeeze(0).tanh()
        share = row_loss_weights(actions[:, 0], row_weights)
        values, of_actions = self.judged(obs, actions, share, rng)
        loss, of_actions = self.objective(values, of_actions, actions, share, batch)
        of_body = of_actions * (1.0 - actions.square())
        self.step(body, forward, of_body.unsqueeze(0), "actor", self.actor)
        return loss

    def objective(
        self, values: Tensor, of_actions: Tensor, actions: Tensor, share: Tensor | float, batch: SampleLike
    ) -> tuple[Tensor, Tensor]:
        """Return the actor's loss and its gradient by the actions ``(n, actions)``.

        Args:
            values: Of the actions ``(n,)``.
            of_actions: Gradient of −Σ share·value by them.
            actions: The policy's ``(n, actions)``.
            share: Of each row ``(n,)``, or one of all.
            batch: The rows.
        """
        return -weighted_mean(values, actor_row_weights(batch)), of_actions


class FastTD3Update(FastDeterministicUpdate, DelayedUpdate):
    """The update of TD3 that `interreplay.learning.td3.PlainTD3Update` defines."""

    def objective(
        self, values: Tensor, of_actions: Tensor, actions: Tensor, share: Tensor | float, batch: SampleLike
    ) -> tuple[Tensor, Tensor]:
        alpha = self.settings.bc_alpha
        if alpha is None:
            return super().objective(values, of_actions, actions, share, batch)
        taken = batch.transitions.actions.flatten(1)
        slopes = of_actions * value_scale(values, alpha) + distance_slopes(actions, taken, share)
        return cloning_loss(values, actions, taken, actor_row_weights(batch), alpha), slopes


class FastDDPGUpdate(FastDeterministicUpdate, ImmediateUpdate):
    """The update of DDPG that `interreplay.learning.ddpg.PlainDDPGUpdate` defines."""
