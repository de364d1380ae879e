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
from interreplay.learning.settings import SACSettings
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
    """Actor, critics, their targets and the temperature.

    Args:
        inputs: Numbers in an observation.
        actions: Numbers in an action.
        hiddens: Widths of the hidden layers of all networks.
        initial_alpha: First temperature, positive.
        inference_only: Build the actor alone.
        critics: Their number m.
        layer_norm: Whether the critics' hidden layers are normalized.
        dropout: Probability with which their units are left out while learning.
    """

    def __init__(
        self,
        inputs: int,
        actions: int,
        hiddens: Sequence[int] = (256, 256),
        initial_alpha: float = 1.0,
        inference_only: bool = False,
        critics: int = SACSettings.n_critics,
        layer_norm: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.encoder: nn.Module = Flat()
        self.actor = self.make_actor(inputs, actions, hiddens)
        if inference_only:
            return
        shape = critics, inputs, actions, hiddens, layer_norm, dropout
        self.critics = self.make_critics(*shape)
        self.targets = self.make_targets(*shape)
        self.initial_alpha = initial_alpha
        self.log_alpha = nn.Parameter(torch.tensor(math.log(initial_alpha)))

    def make_actor(self, inputs: int, actions: int, hiddens: Sequence[int]) -> Any:
        """Make the policy."""
        return GaussianActor(inputs, actions, hiddens)

    def make_critics(
        self, count: int, inputs: int, actions: int, hiddens: Sequence[int], layer_norm: bool, dropout: float
    ) -> BatchedMLP:
        """Make so many critics."""
        return Critics(count, inputs + actions, hiddens, layer_norm, dropout)

    def make_targets(self, *shape: Any) -> nn.Module:
        """Make the critics' targets, which equal them; arguments as of `make_critics`."""
        targets = self.make_critics(*shape).requires_grad_(False)
        targets.load_state_dict(self.critics.state_dict())
        return targets

    def automatic_entropy(self) -> float:
        """Return the entropy in nats that the temperature aims at by default: minus the size of an action."""
        return -float(self.actor.size)

    def reset(self, rng: torch.Generator) -> None:
        """Draw everything but the encoder anew."""
        self.actor.body.reset(rng)
        self.critics.reset(rng)
        self.targets.load_state_dict(self.critics.state_dict())
        with torch.no_grad():
            self.log_alpha.fill_(math.log(self.initial_alpha))


class PlainSACUpdate(SoftUpdate):
    """The update of SAC in plain PyTorch: critics, actor, temperature, targets, in this order.

    With q_t = r + discounts·(min_j Q'_j(s', a') − α log π(a'|s')), a' ~ π(·|s'):

    * critics: Σ_j mean(v·w·½(Q_j(s, a) − q_t)²), w the importance weights, Q_j and q_t means over a row's views;
      with `huber_delta` Huber's loss in place of ½δ², with `pal_alpha` PAL, and what the rows bring before either;
    * actor: mean(v·(α log π(a|s) − min_j Q_j(s, a))), a ~ π(·|s) by reparametrization;
    * temperature: mean(−v·log α·(log π(a|s) + target entropy)).

    v are the row weights, 1 where there are none; those of actor and temperature times the actor's weights. The L2
    terms are in the gradients, not in the reported losses. The minimum of the target is over the critics drawn for this
    update where there is a `target_subset`; that of the actor may be a mean or one critic (`actor_target`); actor and
    temperature wait for their turn (`policy_delay`); every pass of critics or targets has dropout of its own
    (`critic_dropout`). Arguments are those of `SoftUpdate`.
    """

    def update(self, batch: SampleLike, rng: torch.Generator) -> UpdateResult:
        rows, nets = batch.transitions, self.networks
        obs, next_obs, m = views(rows, nets.encoder)
        alpha = nets.log_alpha.detach().exp()
        critic_loss, errors, q_mean, target = self.judge(batch, obs, next_obs, m, rng)
        scores = self.scores(self.scores_wanted, rows, obs, m, errors, target)
        self.minimize(critic_loss, "critic")
        self.updates += 1
        if self.actor_due():
            actor_loss, log_probs = self.actor_loss(batch, self.actor_views(rows, obs, m), alpha, rng)
            self.minimize(actor_loss, "actor")
            alpha_loss = -nets.log_alpha * weighted_mean(log_probs + self.target_entropy, actor_row_weights(batch))
            self.minimize(alpha_loss, "alpha")
            self.policy_metrics = (actor_loss.detach(), alpha_loss.detach(), log_probs.mean())
        self.move_targets()
        self.reset_when_due(rng)
        metrics = self.report(critic_loss, alpha, q_mean).detach()
        return UpdateResult(errors.mean(dim=0).detach(), metrics, scores)

    def judge(
        self, batch: SampleLike, obs: Tensor, next_obs: Tensor, m: int, rng: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the critics' loss, TD errors ``(critics, n)``, the mean value and q_t ``(n,)``.

        Args:
            batch: What is learned from.
            obs: Encoded observations ``(n·m, d)``.
            next_obs: The next ones, without a gradient.
            m: Views of each row.
            rng: Source of the policy's noise and of dropout.
        """
        target = self.target_for(batch, next_obs, m, rng)
        return *self.critic_loss(batch, obs, m, target, rng), target

    @torch.no_grad()
    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        sample = self.networks.actor(next_obs, normal(repeat_for_views(rows.actions.flatten(1), m), rng))
        inputs = torch.cat([self.target_views(rows, next_obs), sample.actions], dim=1)
        values = self.lowest_target(inputs, rng).squeeze(-1)
        if self.settings.backup_entropy:
            values = values - self.networks.log_alpha.exp() * sample.log_probs
        return rows.rewards + rows.discounts * mean_over_views(values, m)

    def critic_loss(
        self, batch: SampleLike, obs: Tensor, m: int, target: Tensor, rng: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the critics' loss for observations ``(n·m, d)``, TD errors ``(critics, n)`` and the mean value."""
        actions, critics = repeat_for_views(batch.transitions.actions.flatten(1), m), self.networks.critics
        values = critics(torch.cat([obs, actions], dim=1), critics.draw_dropped(obs, rng))
        return self.loss_of(batch, mean_over_views(values, m), target)

    def loss_of(self, batch: SampleLike, values: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what `critic_loss` does, of the critics' values ``(critics, n)`` of the actions that were taken."""
        errors = values - target
        losses = batch.weights * self.loss_for(batch).values(errors)
        return weighted_mean(losses, batch.row_weights).sum(), errors, (errors + target).mean()

    def actor_loss(self, batch: SampleLike, obs: Tensor, alpha: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return the actor's loss for observations ``(n, d)``, and log π ``(n,)`` without its gradient."""
        sample = self.networks.actor(obs, normal(batch.transitions.actions.flatten(1), rng))
        inputs = torch.cat([obs, sample.actions], dim=1)
        values = self.judgment(self.networks.critics(inputs, *self.judges(obs, rng)))
        return weighted_mean(alpha * sample.log_probs - values, actor_row_weights(batch)), sample.log_probs.detach()


SACUpdate = FastSACUpdate
"""What learns where nothing else is asked for: `PlainSACUpdate`, with gradients by hand."""
