"""Soft actor-critic for discrete actions (Christodoulou 2019, arXiv:1910.07207)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from interreplay.learning.actor_critic.actor_critic import ActorCriticUpdate, PolicyLosses
from interreplay.learning.actor_critic.sac import SOFT_METRICS, SACNetworks, soft_losses
from interreplay.learning.policies import POLICY_OUTPUT, DiscretePolicy, FeedforwardPolicy
from interreplay.learning.settings import SACSettings
from interreplay.learning.update import mean_over_views
from interreplay.transitions import Transitions

ENTROPY_SHARE = 0.98
"""Default target entropy as a share of the largest entropy, log|A| (Christodoulou 2019, appendix)."""


class CategoricalActor(FeedforwardPolicy, DiscretePolicy):
    """A categorical policy; `output` returns log probabilities ``(n, A)`` up to a constant per row."""

    stochastic = True

    def forward(self, obs: Tensor) -> Tensor:
        """Return log π(·|s) ``(n, A)``."""
        return self.body(obs).log_softmax(dim=-1)

    def mode(self, output: Tensor) -> Tensor:
        return output.argmax(dim=-1)

    def draw(self, output: Tensor, rng: torch.Generator) -> Tensor:
        return torch.multinomial(output.softmax(dim=-1), 1, generator=rng).squeeze(1)

    def record(self, output: Tensor) -> dict[str, Tensor]:
        """Return the probabilities ``(n, A)``."""
        return {POLICY_OUTPUT: output.log_softmax(dim=-1).exp()}


class DiscreteSACNetworks(SACNetworks):
    """`SACNetworks` with a categorical actor of `actions` actions and critics with one output per action."""

    actor_class = CategoricalActor

    def automatic_entropy(self) -> float:
        return ENTROPY_SHARE * math.log(self.actor.size)


class DiscreteSACUpdate(ActorCriticUpdate):
    """The update of SAC for discrete actions, with sums over all actions where `SACUpdate` samples one.

    With V(s) = Σ_a π(a|s)·(min_j Q_j(s, a) − α log π(a|s)) and q_t = r + discounts·V'(s'), V' of the target networks:

    * critics: as in `SACUpdate`, Q_j(s, a) the output of the action in the row;
    * actor: mean(−v·V(s));
    * temperature: as in `SACUpdate`, with Σ_a π(a|s)·log π(a|s) in place of log π(a|s).
    """

    metrics = SOFT_METRICS
    standard = SACSettings()

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
