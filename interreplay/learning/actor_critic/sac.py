"""Soft actor-critic with automatic temperature (Haarnoja et al. 2018, arXiv:1812.05905)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from interreplay.learning.actor_critic.actor_critic import ActorCriticUpdate, PolicyLosses, next_noise
from interreplay.learning.actor_critic.networks import ActorCriticNetworks
from interreplay.learning.networks.distributions import LOG_STD_RANGE, sample_squashed_gaussian
from interreplay.learning.networks.residual_layers import ResidualGaussian
from interreplay.learning.policies import POLICY_OUTPUT, ContinuousPolicy, FeedforwardPolicy
from interreplay.learning.settings import SACSettings
from interreplay.learning.update import flat_rows, mean_over_views, normal, weighted_mean
from interreplay.transitions import Transitions

SOFT_METRICS = ("critic_loss", "actor_loss", "alpha_loss", "log_prob_mean", "alpha", "q_mean")
"""Metrics of updates with a temperature."""


class GaussianActor(FeedforwardPolicy, ContinuousPolicy):
    """A Gaussian squashed by tanh into (−1, 1), SAC's policy (Haarnoja et al. 2018, arXiv:1801.01290, appendix C).

    `output` returns [mean; log standard deviation] ``(n, 2·actions)`` before squashing and clamping.
    """

    stochastic = True
    gaussian = True
    outputs_per_action = 2
    residual_class = ResidualGaussian

    def forward(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Sample actions ``(n, actions)`` and their log density for standard normal `noise` of the same shape."""
        return sample_squashed_gaussian(self.body(obs), noise, self.body.plain)

    def mode(self, output: Tensor) -> Tensor:
        return torch.tanh(output.chunk(2, dim=-1)[0])

    def draw(self, output: Tensor, rng: torch.Generator) -> Tensor:
        mean, log_std = output.chunk(2, dim=-1)
        return torch.tanh(mean + log_std.clamp(*LOG_STD_RANGE).exp() * normal(mean, rng))

    def record(self, output: Tensor) -> dict[str, Tensor]:
        """Return [mean; log standard deviation] ``(n, 2·actions)`` before squashing."""
        mean, log_std = output.chunk(2, dim=-1)
        return {POLICY_OUTPUT: torch.cat([mean, log_std.clamp(*LOG_STD_RANGE)], dim=-1)}

    def record_random(self, count: int) -> dict[str, Tensor]:
        """Return mean and log standard deviation of uniform actions."""
        row = torch.tensor([0.0, -0.5 * math.log(3.0)]).repeat_interleave(self.size)
        return {POLICY_OUTPUT: row.expand(count, -1)}


class SACNetworks(ActorCriticNetworks):
    """Actor, critics, target networks of the critics, and the temperature.

    `initial_alpha` is the initial temperature, which is positive. See `ActorCriticNetworks` for the other arguments.
    """

    actor_class: ClassVar[Any] = GaussianActor

    def __init__(self, *shape: Any, initial_alpha: float = 1.0, **options: Any):
        super().__init__(*shape, **options)
        self.initial_alpha = initial_alpha
        if not options.get("inference_only"):
            self.log_alpha = nn.Parameter(torch.tensor(math.log(initial_alpha)))

    def automatic_entropy(self) -> float:
        """Return the default target entropy in nats: minus the width of an action."""
        return -float(self.actor.size)

    def reset(self, rng: torch.Generator) -> None:
        super().reset(rng)
        with torch.no_grad():
            self.log_alpha.fill_(math.log(self.initial_alpha))


class SACUpdate(ActorCriticUpdate):
    """The update of SAC: critics, actor, temperature, target networks, in this order.

    With q_t = r + discounts·(min_j Q'_j(s', a') − α log π(a'|s')), a' ~ π(·|s'):

    * critics: Σ_j mean(v·w·½(Q_j(s, a) − q_t)²), w the importance weights, Q_j and q_t means over a row's views.
      `huber_delta` replaces ½δ² by the Huber loss, `pal_alpha` by PAL; a loss defined by the rows replaces either;
    * actor: mean(v·(α log π(a|s) − min_j Q_j(s, a))), a ~ π(·|s) by reparameterization;
    * temperature: mean(−v·log α·(log π(a|s) + target entropy)).

    v are the row weights, 1 by default, and for actor and temperature times the actor's weights. `actor_target`
    replaces the actor's minimum by a mean or by one critic, `critic_target` "mean" both minima by means. Actor and
    temperature are updated every `policy_delay` updates.
    """

    metrics = SOFT_METRICS
    standard = SACSettings()

    def policy_losses(self, rows: Transitions, obs: Tensor, weights: Tensor | None, rng: Any) -> PolicyLosses:
        actions, log_probs = self.networks.actor(obs, normal(flat_rows(rows.actions), rng))
        values = self.values_for_actor([obs, actions], rng).squeeze(-1)
        return soft_losses(self, log_probs, values, weights)

    @torch.no_grad()
    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: Any) -> Tensor:
        actions, log_probs = self.networks.actor(next_obs, next_noise(rows, m, rng))
        values = self.lowest_target([self.target_views(rows, next_obs), actions], rng).squeeze(-1)
        return soft_target(self, rows, values, log_probs=log_probs, m=m)


def soft_target(update: Any, rows: Transitions, values: Tensor, log_probs: Tensor, m: int) -> Tensor:
    """Return r + discounts·(values − α log π) ``(n,)``, the mean over views, without a gradient of α.

    `values` and `log_probs` ``(n·m,)`` belong to the next actions.
    """
    if update.settings.backup_entropy:
        values = values - update.networks.log_alpha.detach().exp() * log_probs
    return rows.rewards + rows.discounts * mean_over_views(values, m)


def soft_losses(update: Any, log_probs: Tensor, values: Tensor, weights: Tensor | None) -> PolicyLosses:
    """Return the losses of actor and temperature, see `SACUpdate`, and the mean of log π.

    `log_probs` and `values` ``(n,)`` belong to one action per row, or are means over the policy's actions.
    `weights` are v ``(n,)`` or None.
    """
    log_alpha = update.networks.log_alpha
    actor_loss = weighted_mean(log_alpha.detach().exp() * log_probs - values, weights)
    log_probs = log_probs.detach()
    alpha_loss = log_alpha * -weighted_mean(log_probs + update.target_entropy, weights)
    return [actor_loss, alpha_loss], [log_probs.mean()]
