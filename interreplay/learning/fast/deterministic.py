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
    mean_over_views,
    repeat_for_views,
    views,
    weighted_mean,
)
from interreplay.transitions import Transitions


class FastDeterministicUpdate(FastActorCriticUpdate, DeterministicUpdate):
    """An update of m critics and, when it is due, of the actor and all targets."""

    scale = 2.0

    def update(self, batch: SampleLike, rng: torch.Generator) -> UpdateResult:
        rows = batch.transitions
        obs, next_obs, m = views(rows, self.networks.encoder)
        actions = repeat_for_views(rows.actions.flatten(1), m)
        target = self.target_for(batch, next_obs, m, rng)
        errors, critic_loss = self.step_critics(torch.cat([obs, actions], dim=1), m, target, batch)
        scores = self.scores(self.scores_wanted, rows, obs, m, errors, target)
        self.updates += 1
        if self.actor_due():
            self.actor_loss = self.step_actor(self.actor_views(rows, obs, m), actor_row_weights(batch))
            self.move_targets()
        metrics = torch.stack([critic_loss, self.actor_loss.to(critic_loss), (errors + target).mean()])
        return UpdateResult(errors.mean(dim=0), metrics, scores)

    @torch.no_grad()
    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        next_obs = self.target_views(rows, next_obs)
        actions = self.target_actions(next_obs, rng)
        values = self.networks.targets(torch.cat([next_obs, actions], dim=1)).amin(dim=0)
        return rows.rewards + rows.discounts * mean_over_views(values, m)

    @torch.no_grad()
    def step_actor(self, obs: Tensor, row_weights: Tensor | None) -> Tensor:
        """Step the actor by the first critic's opinion of it; return its loss before the step."""
        body = self.networks.actor.body
        forward = body.passes.run(obs)
        actions = forward.outputs.squeeze(0).tanh()
        judged = self.networks.critics.passes.run(torch.cat([obs, actions], dim=1), first=1)
        values = judged.outputs.squeeze(-1).squeeze(0)
        slopes = torch.zeros_like(values) - row_loss_weights(values, row_weights)
        of_actions = judged.backward(slopes.view(1, -1, 1), columns=slice(obs.shape[1], None))
        assert of_actions is not None
        of_body = of_actions * (1.0 - actions.square())
        self.step(body, forward, of_body.unsqueeze(0), "actor", self.actor)
        return -weighted_mean(values, row_weights)


class FastTD3Update(FastDeterministicUpdate, DelayedUpdate):
    """The update of TD3 that `interreplay.learning.td3.PlainTD3Update` defines."""


class FastDDPGUpdate(FastDeterministicUpdate, ImmediateUpdate):
    """The update of DDPG that `interreplay.learning.ddpg.PlainDDPGUpdate` defines."""
