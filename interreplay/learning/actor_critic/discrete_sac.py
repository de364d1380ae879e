"""Soft actor-critic for discrete actions (Christodoulou 2019, arXiv:1910.07207)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from interreplay.learning.actor_critic.actor_critic import ActorCriticUpdate, PolicyLosses
from interreplay.learning.actor_critic.sac import (
    SOFT_METRICS,
    SACNetworks,
    add_temperature,
    soft_losses,
)
from interreplay.learning.networks.layers import MLP, BatchedMLP
from interreplay.learning.networks.residual_layers import ResidualMLP
from interreplay.learning.policies import POLICY_OUTPUT, DiscretePolicy
from interreplay.learning.settings import SACSettings
from interreplay.learning.update import (
    mean_over_views,
)
from interreplay.transitions import Transitions

ENTROPY_SHARE = 0.98
"""Default target entropy as a share of the largest entropy, log|A| (Christodoulou 2019, appendix)."""


class CategoricalActor(DiscretePolicy):
    """A categorical policy.

    Args:
        inputs: Width of an observation.
        actions: Number of actions A.
        hiddens: Widths of the hidden layers.
        blocks: Number of residual blocks; 0 for plain layers.
        width: Width of a network with residual blocks.
    """

    stochastic = True

    def __init__(self, inputs: int, actions: int, hiddens: Sequence[int], blocks: int = 0, width: int = 128):
        super().__init__()
        self.body: Any = MLP([inputs, *hiddens, actions])
        if blocks:
            self.body = ResidualMLP(1, inputs, width, blocks, actions)
        self.size = actions

    def forward(self, obs: Tensor) -> Tensor:
        """Return log π(·|s) ``(n, A)``."""
        return self.body(obs).log_softmax(dim=-1)

    def output(self, obs: Tensor) -> Tensor:
        """Return log probabilities ``(n, A)`` up to a constant per row."""
        return self.body.outputs(obs)[0]

    def mode(self, output: Tensor) -> Tensor:
        return output.argmax(dim=-1)

    def draw(self, output: Tensor, rng: torch.Generator) -> Tensor:
        return torch.multinomial(output.softmax(dim=-1), 1, generator=rng).squeeze(1)

    def record(self, output: Tensor) -> dict[str, Tensor]:
        """Return the probabilities ``(n, A)``."""
        return {POLICY_OUTPUT: output.log_softmax(dim=-1).exp()}

    def record_random(self, count: int) -> dict[str, Tensor]:
        return {POLICY_OUTPUT: torch.full((count, self.size), 1.0 / self.size)}


class DiscreteSACNetworks(SACNetworks):
    """`SACNetworks` with a categorical actor of `actions` actions and critics with one output per action."""

    def make_actor(self, inputs: int, actions: int, hiddens: Sequence[int], *residual: int) -> Any:
        return CategoricalActor(inputs, actions, hiddens, *residual)

    def make_critics(self, count: int, inputs: int, actions: int, hiddens: Sequence[int], *options: Any) -> BatchedMLP:
        layer_norm, dropout, blocks, width = options
        if blocks:
            return ResidualMLP(count, inputs, width, blocks, actions)
        return BatchedMLP(count, [inputs, *hiddens, actions], layer_norm, dropout)

    def automatic_entropy(self) -> float:
        return ENTROPY_SHARE * math.log(self.actor.size)


class DiscreteSACUpdate(ActorCriticUpdate):
    """The update of SAC for discrete actions, with sums over all actions where `SACUpdate` samples one.

    With V(s) = Σ_a π(a|s)·(min_j Q_j(s, a) − α log π(a|s)) and q_t = r + discounts·V'(s'), V' of the target networks:

    * critics: as in `SACUpdate`, Q_j(s, a) the output of the action in the row;
    * actor: mean(−v·V(s));
    * temperature: as in `SACUpdate`, with Σ_a π(a|s)·log π(a|s) in place of log π(a|s).

    Args:
        networks: `DiscreteSACNetworks`.
        target_entropy: Target entropy in nats; None for the setting of this name, by default `ENTROPY_SHARE`·log A.
        **options: Arguments of `ActorCriticUpdate`, including settings by name.
    """

    metrics = SOFT_METRICS
    target_entropy: float
    standard = SACSettings()

    def __init__(self, networks: Any, target_entropy: float | None = None, **options: Any):
        super().__init__(networks, **options)
        add_temperature(self, target_entropy)

    def policy_losses(self, rows: Transitions, obs: Tensor, weights: Tensor | None, rng: Any) -> PolicyLosses:
        log_probs = self.networks.actor(obs)
        probs = log_probs.exp()
        with torch.no_grad():
            values = self.values_for_actor([obs], rng)
        return soft_losses(self, (probs * log_probs).sum(dim=-1), (probs * values).sum(dim=-1), weights)

    @torch.no_grad()
    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        log_probs = self.networks.actor(next_obs)
        values = self.lowest_target([self.target_views(rows, next_obs)], rng)
        if self.settings.backup_entropy:
            values = values - self.networks.log_alpha.exp() * log_probs
        return rows.rewards + rows.discounts * mean_over_views((log_probs.exp() * values).sum(dim=-1), m)
