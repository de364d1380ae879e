"""Soft actor-critic with automatic temperature (Haarnoja et al. 2018, arXiv:1812.05905)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.learning.actor_critic import SoftUpdate
from interreplay.learning.encoders import Flat
from interreplay.learning.fast.sac import FastSACUpdate
from interreplay.learning.networks import BatchedMLP, Critics, GaussianActor
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


class SACNetworks(nn.Module):
    """Actor, twin critics, their targets and the temperature.

    Args:
        inputs: Numbers in an observation.
        actions: Numbers in an action.
        hiddens: Widths of the hidden layers of all networks.
        initial_alpha: First temperature, positive.
        inference_only: Build the actor alone.
    """

    def __init__(
        self,
        inputs: int,
        actions: int,
        hiddens: Sequence[int] = (256, 256),
        initial_alpha: float = 1.0,
        inference_only: bool = False,
    ):
        super().__init__()
        self.encoder: nn.Module = Flat()
        self.actor = self.make_actor(inputs, actions, hiddens)
        if inference_only:
            return
        self.critics = self.make_critics(inputs, actions, hiddens)
        self.targets = self.make_critics(inputs, actions, hiddens).requires_grad_(False)
        self.targets.load_state_dict(self.critics.state_dict())
        self.log_alpha = nn.Parameter(torch.tensor(math.log(initial_alpha)))

    def make_actor(self, inputs: int, actions: int, hiddens: Sequence[int]) -> Any:
        """Make the policy."""
        return GaussianActor(inputs, actions, hiddens)

    def make_critics(self, inputs: int, actions: int, hiddens: Sequence[int]) -> BatchedMLP:
        """Make the twin critics."""
        return Critics(2, inputs + actions, hiddens)


class PlainSACUpdate(SoftUpdate):
    """The update of SAC in plain PyTorch: critics, actor, temperature, targets, in this order.

    With q_t = r + discounts·(min_j Q'_j(s', a') − α log π(a'|s')), a' ~ π(·|s'):

    * critics: Σ_j mean(v·w·½(Q_j(s, a) − q_t)²), w the importance weights, Q_j and q_t means over a row's views;
      with `huber_delta` Huber's loss in place of ½δ², with `pal_alpha` PAL, and what the rows bring before either;
    * actor: mean(v·(α log π(a|s) − min_j Q_j(s, a))), a ~ π(·|s) by reparametrization;
    * temperature: mean(−v·log α·(log π(a|s) + target entropy)).

    v are the row weights, 1 where there are none; those of actor and temperature times the actor's weights.
    The L2 terms are in the gradients, not in the reported losses.
    Arguments are those of `SoftUpdate`.
    """

    def update(self, batch: SampleLike, rng: torch.Generator) -> UpdateResult:
        rows, nets = batch.transitions, self.networks
        obs, next_obs, m = views(rows, nets.encoder)
        actions = repeat_for_views(rows.actions.flatten(1), m)
        alpha = nets.log_alpha.detach().exp()

        target = self.target_for(batch, next_obs, m, rng)

        errors = mean_over_views(nets.critics(torch.cat([obs, actions], dim=1)), m) - target
        scores = self.scores(self.scores_wanted, rows, obs, m, errors, target)
        losses = batch.weights * self.loss_for(batch).values(errors)
        critic_loss = weighted_mean(losses, batch.row_weights).sum()
        self.minimize(critic_loss, "critic")

        actor_obs = self.actor_views(rows, obs, m)
        sample = nets.actor(actor_obs, normal(rows.actions.flatten(1), rng))
        values = nets.critics(torch.cat([actor_obs, sample.actions], dim=1)).amin(dim=0)
        actor_weights = actor_row_weights(batch)
        actor_loss = weighted_mean(alpha * sample.log_probs - values, actor_weights)
        self.minimize(actor_loss, "actor")

        log_probs = sample.log_probs.detach()
        alpha_loss = -nets.log_alpha * weighted_mean(log_probs + self.target_entropy, actor_weights)
        self.minimize(alpha_loss, "alpha")

        self.move_targets()
        means = (errors + target).mean(), log_probs.mean()
        metrics = torch.stack([critic_loss, actor_loss, alpha_loss, alpha, *means])
        return UpdateResult(errors.mean(dim=0).detach(), metrics.detach(), scores)

    @torch.no_grad()
    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        nets, actions = self.networks, repeat_for_views(rows.actions.flatten(1), m)
        following = nets.actor(next_obs, normal(actions, rng))
        target_inputs = torch.cat([self.target_views(rows, next_obs), following.actions], dim=1)
        values = nets.targets(target_inputs).amin(dim=0) - nets.log_alpha.exp() * following.log_probs
        return rows.rewards + rows.discounts * mean_over_views(values, m)


SACUpdate = FastSACUpdate
"""What learns where nothing else is asked for: `PlainSACUpdate`, with gradients by hand."""
