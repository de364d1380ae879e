"""`interreplay.learning.td3.PlainTD3Update` and `interreplay.learning.ddpg.PlainDDPGUpdate` with gradients by hand."""

from __future__ import annotations

import torch
from torch import Tensor

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
            self.actor_loss = self.step_actor(self.actor_views(rows, obs, m), actor_row_weights(batch), rng)
            self.move_targets()
        self.reset_when_due(rng)
        metrics = torch.stack([critic_loss, self.actor_loss.to(critic_loss), (errors + target).mean()])
        return UpdateResult(errors.mean(dim=0), metrics, scores)

    @torch.no_grad()
    def step_actor(self, obs: Tensor, row_weights: Tensor | None, rng: torch.Generator) -> Tensor:
        """Step the actor by the critics' opinion of it; return its loss before the step."""
        body = self.networks.actor.body
        forward = body.passes.run(obs)
        actions = forward.outputs.squeeze(0).tanh()
        share = row_loss_weights(actions[:, 0], row_weights)
        values, of_actions = self.judged(obs, actions, share, rng)
        of_body = of_actions * (1.0 - actions.square())
        self.step(body, forward, of_body.unsqueeze(0), "actor", self.actor)
        return -weighted_mean(values, row_weights)


class FastTD3Update(FastDeterministicUpdate, DelayedUpdate):
    """The update of TD3 that `interreplay.learning.td3.PlainTD3Update` defines."""


class FastDDPGUpdate(FastDeterministicUpdate, ImmediateUpdate):
    """The update of DDPG that `interreplay.learning.ddpg.PlainDDPGUpdate` defines."""
