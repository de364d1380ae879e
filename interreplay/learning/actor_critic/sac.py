"""Soft actor-critic with automatic temperature (Haarnoja et al. 2018, arXiv:1812.05905)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.learning.actor_critic.actor_critic import ActorCriticUpdate, PolicyLosses, next_noise
from interreplay.learning.actor_critic.compilation import compiled
from interreplay.learning.networks.batched_layers import at_once
from interreplay.learning.networks.distributions import LOG_STD_RANGE, SquashedGaussianSample, sample_squashed_gaussian
from interreplay.learning.networks.encoders import Flat
from interreplay.learning.networks.layers import MLP, BatchedMLP
from interreplay.learning.networks.optimizers import FastAdam
from interreplay.learning.networks.residual_layers import ResidualGaussian, ResidualMLP
from interreplay.learning.policies import POLICY_OUTPUT, ContinuousPolicy
from interreplay.learning.settings import SACSettings
from interreplay.learning.update import (
    flat_rows,
    mean_over_views,
    normal,
    weighted_mean,
)
from interreplay.transitions import Transitions

SOFT_METRICS = ("critic_loss", "actor_loss", "alpha_loss", "log_prob_mean", "alpha", "q_mean")
"""Metrics of updates with a temperature."""


class GaussianActor(ContinuousPolicy):
    """A Gaussian squashed by tanh into (−1, 1), SAC's policy (Haarnoja et al. 2018, arXiv:1801.01290, appendix C).

    Args:
        inputs: Width of an observation.
        actions: Width of an action.
        hiddens: Widths of the hidden layers.
        blocks: Number of residual blocks, see `ResidualGaussian`; 0 for plain layers.
        width: Width of a network with residual blocks.
    """

    stochastic = True
    gaussian = True

    def __init__(self, inputs: int, actions: int, hiddens: Sequence[int], blocks: int = 0, width: int = 128):
        super().__init__()
        self.body: Any = MLP([inputs, *hiddens, 2 * actions])
        if blocks:
            self.body = ResidualGaussian(inputs, width, blocks, actions)
        self.size = actions

    def forward(self, obs: Tensor, noise: Tensor) -> SquashedGaussianSample:
        """Sample actions ``(n, actions)`` and their log density for standard normal `noise` of the same shape."""
        return sample_squashed_gaussian(self.body(obs), noise, self.body.plain)

    def output(self, obs: Tensor) -> Tensor:
        """Return [mean; log standard deviation] ``(n, 2·actions)`` before squashing and clamping."""
        return self.body.outputs(obs)[0]

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


class SACNetworks(nn.Module):
    """Actor, critics, target networks of the critics, and the temperature.

    Args:
        inputs: Width of an observation.
        actions: Width of an action.
        hiddens: Widths of the hidden layers of all networks.
        initial_alpha: Initial temperature, positive.
        inference_only: Build the actor alone.
        critics: Number of critics m.
        layer_norm: Whether the critics' hidden layers are normalized.
        dropout: Probability with which the critics' hidden units are dropped while learning.
        critic_blocks: Number of residual blocks of the critics, see `ResidualMLP`; 0 for plain layers.
        critic_width: Width of critics with residual blocks.
        actor_blocks: Number of residual blocks of the actor; 0 for plain layers.
        actor_width: Width of an actor with residual blocks.
    """

    critic_outputs = 1

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
        critic_blocks: int = 0,
        critic_width: int = 128,
        actor_blocks: int = 0,
        actor_width: int = 128,
    ):
        super().__init__()
        self.encoder: nn.Module = Flat()
        self.actor = self.make_actor(inputs, actions, hiddens, actor_blocks, actor_width)
        if inference_only:
            return
        shape = (critics, inputs, actions, hiddens, layer_norm, dropout, critic_blocks, critic_width)
        self.critics = self.make_critics(*shape)
        self.targets = self.make_targets(*shape)
        self.initial_alpha = initial_alpha
        self.log_alpha = nn.Parameter(torch.tensor(math.log(initial_alpha)))

    def make_actor(self, inputs: int, actions: int, hiddens: Sequence[int], *residual: int) -> Any:
        """Make the policy; `residual` are `actor_blocks` and `actor_width`."""
        return GaussianActor(inputs, actions, hiddens, *residual)

    def make_critics(self, count: int, inputs: int, actions: int, hiddens: Sequence[int], *options: Any) -> BatchedMLP:
        """Make `count` critics; `options` are `layer_norm`, `dropout`, `critic_blocks` and `critic_width`."""
        layer_norm, dropout, blocks, width = options
        if blocks:
            return ResidualMLP(count, inputs + actions, width, blocks, self.critic_outputs)
        return BatchedMLP(count, [inputs + actions, *hiddens, self.critic_outputs], layer_norm, dropout)

    def make_targets(self, *shape: Any) -> nn.Module:
        """Make the critics' target networks, equal to the critics; arguments as in `make_critics`."""
        targets = self.make_critics(*shape).requires_grad_(False)
        targets.load_state_dict(self.critics.state_dict())
        return targets

    def automatic_entropy(self) -> float:
        """Return the default target entropy in nats: minus the width of an action."""
        return -float(self.actor.size)

    def reset(self, rng: torch.Generator) -> None:
        """Draw everything but the encoder again."""
        self.actor.body.reset(rng)
        self.critics.reset(rng)
        if next(self.targets.parameters(), None) is not None:
            self.targets.load_state_dict(self.critics.state_dict())
        with torch.no_grad():
            self.log_alpha.fill_(math.log(self.initial_alpha))


class SACUpdate(ActorCriticUpdate):
    """The update of SAC: critics, actor, temperature, target networks, in this order.

    With q_t = r + discounts·(min_j Q'_j(s', a') − α log π(a'|s')), a' ~ π(·|s'):

    * critics: Σ_j mean(v·w·½(Q_j(s, a) − q_t)²), w the importance weights, Q_j and q_t means over a row's views.
      `huber_delta` replaces ½δ² by Huber's loss, `pal_alpha` by PAL; a loss defined by the rows replaces either;
    * actor: mean(v·(α log π(a|s) − min_j Q_j(s, a))), a ~ π(·|s) by reparametrization;
    * temperature: mean(−v·log α·(log π(a|s) + target entropy)).

    v are the row weights, 1 by default, and for actor and temperature times the actor's weights. L2 terms are part of
    the gradients, not of the reported losses. With `target_subset`, the minimum of the target is over critics drawn for
    this update. `actor_target` replaces the actor's minimum by a mean or by one critic, `critic_target` "mean" both
    minima by means. Actor and temperature are updated every `policy_delay` updates. With `critic_dropout`, each pass of
    critics or targets draws its own dropped units.

    Args:
        networks: Networks with ``log_alpha``, see `ActorCriticUpdate`.
        target_entropy: Target entropy in nats; None for the setting of this name.
        **options: Arguments of `ActorCriticUpdate`, including settings by name.
    """

    metrics = SOFT_METRICS
    target_entropy: float
    standard = SACSettings()

    def __init__(self, networks: Any, target_entropy: float | None = None, **options: Any):
        super().__init__(networks, **options)
        add_temperature(self, target_entropy)

    def policy_losses(self, rows: Transitions, obs: Tensor, weights: Tensor | None, rng: Any) -> PolicyLosses:
        actions, log_probs = self.networks.actor(obs, normal(flat_rows(rows.actions), rng))
        values = self.values_for_actor([obs, actions], rng).squeeze(-1)
        return soft_losses(self, log_probs, values, weights)

    @torch.no_grad()
    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: Any) -> Tensor:
        actions, log_probs = self.networks.actor(next_obs, next_noise(rows, m, rng))
        values = self.lowest_target([self.target_views(rows, next_obs), actions], rng).squeeze(-1)
        if self.settings.backup_entropy:
            values = values - self.networks.log_alpha.exp() * log_probs
        return rows.rewards + rows.discounts * mean_over_views(values, m)


def add_temperature(update: Any, target_entropy: float | None) -> None:
    """Add the target entropy, log α, its optimizer and the initial metrics of the policy to an update.

    Args:
        update: Update of networks with ``log_alpha`` and ``automatic_entropy``.
        target_entropy: Target entropy in nats; None for the setting of this name, where "auto" means the networks'
            ``automatic_entropy`` and "half" half of it.
    """
    log_alpha = update.networks.log_alpha
    chosen = update.settings.target_entropy if target_entropy is None else target_entropy
    if isinstance(chosen, str):
        chosen = {"auto": 1.0, "half": 0.5}[chosen] * update.networks.automatic_entropy()
    update.target_entropy = float(chosen)
    update.policy = [*update.actor, log_alpha]
    optimizer = FastAdam([log_alpha], update.settings.alpha_lr)
    if update.settings.torch_compile and at_once(log_alpha.device):
        optimizer.compile(compiled)
    update.optimizers["alpha"] = optimizer
    update.policy_metrics = list(log_alpha.detach().new_zeros(3).unbind())


def soft_losses(update: Any, log_probs: Tensor, values: Tensor, weights: Tensor | None) -> PolicyLosses:
    """Return the losses of actor and temperature, see `SACUpdate`, and the mean of log π.

    Args:
        update: Update with a temperature.
        log_probs: log π ``(n,)`` of one action per row, or its mean over the policy's actions.
        values: Values ``(n,)`` of these actions.
        weights: v ``(n,)``, or None for equal weights.
    """
    log_alpha = update.networks.log_alpha
    actor_loss = weighted_mean(log_alpha.detach().exp() * log_probs - values, weights)
    log_probs = log_probs.detach()
    alpha_loss = log_alpha * -weighted_mean(log_probs + update.target_entropy, weights)
    return [actor_loss, alpha_loss], [log_probs.mean()]
