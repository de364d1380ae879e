"""Twin delayed DDPG (Fujimoto et al. 2018, arXiv:1802.09477), DDPG and TD3+BC as one update with different settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from interreplay.learning.actor_critic.actor_critic import ActorCriticUpdate, PolicyLosses, next_noise
from interreplay.learning.actor_critic.networks import ActorCriticNetworks
from interreplay.learning.policies import POLICY_OUTPUT, ContinuousPolicy, FeedforwardPolicy
from interreplay.learning.settings import TD3Settings
from interreplay.learning.update import count_views, flat_rows, mean_over_views, normal, weighted_mean
from interreplay.transitions import Transitions


class DeterministicActor(FeedforwardPolicy, ContinuousPolicy):
    """A policy with one action per observation, squashed by tanh into [−1, 1]."""

    def forward(self, obs: Tensor) -> Tensor:
        """Return actions ``(n, actions)`` for observations ``(n, inputs)``."""
        return torch.tanh(self.body(obs))

    def output(self, obs: Tensor) -> Tensor:
        """Return actions ``(n, actions)``."""
        return torch.tanh(super().output(obs))

    def mode(self, output: Tensor) -> Tensor:
        return output

    def record(self, output: Tensor) -> dict[str, Tensor]:
        """Return the actions, without noise."""
        return {POLICY_OUTPUT: output}

    def record_random(self, count: int) -> dict[str, Tensor]:
        """Return the mean of uniform actions."""
        return {POLICY_OUTPUT: torch.zeros(count, self.size)}


class DeterministicNetworks(ActorCriticNetworks):
    """Actor, m critics, and target networks of both; arguments as in `ActorCriticNetworks`."""

    actor_class = DeterministicActor

    def make_targets(self, of_actor: Sequence[Any], of_critics: Sequence[Any]) -> None:
        self.target_actor = self.make_actor(*of_actor).requires_grad_(False)
        super().make_targets(of_actor, of_critics)

    def copy_to_targets(self) -> None:
        self.target_actor.load_state_dict(self.actor.state_dict())
        super().copy_to_targets()


class TD3Update(ActorCriticUpdate):
    """The update of TD3: critics, and at every d-th update the actor and all target networks.

    With q_t = r + discounts·min_j Q'_j(s', a'), a' = clip(π'(s') + clip(ε, −c, c), −1, 1), ε ~ N(0, σ²):

    * critics: Σ_j mean(v·w·δ_j²), δ_j = Q_j(s, a) − q_t, w the importance weights, Q_j and q_t means over a row's
      views. `huber_delta` replaces δ² by twice the Huber loss, `pal_alpha` by twice PAL; a loss defined by the rows
      replaces either;
    * actor: mean(−v·Q_1(s, π(s))).

    v are the row weights, 1 by default, and for the actor times the actor's weights. `actor_target` replaces Q_1 by the
    minimum or the mean of the critics, `critic_target` "mean" the minimum of the target and Q_1 by means.

    With `bc_alpha` α, the actor's loss is TD3+BC's (Fujimoto & Gu 2021, arXiv:2106.06860), −λ·mean(v·Q_1(s, π(s))) +
    mean(v·(π(s) − a)²), the squares means over an action's numbers, λ = α / mean|Q_1| without a gradient.

    DDPG (Lillicrap et al. 2016, arXiv:1509.02971) is this update with the settings of `DDPGSettings`: d = 1 and
    a' = π'(s'), without noise.
    """

    metrics = ("critic_loss", "actor_loss", "q_mean")
    delays_targets = True
    loss_scale = 2.0
    standard = TD3Settings()

    def __init__(self, networks: Any, **options: Any):
        super().__init__(networks, **options)
        self.targets += networks.target_actor.parameters()
        self.sources += networks.actor.parameters()

    def target_noise(self, rows: Transitions, rng: torch.Generator) -> Tensor | None:
        return None if self.settings.target_policy_noise is None else next_noise(rows, count_views(rows), rng)

    def policy_losses(self, rows: Transitions, obs: Tensor, weights: Tensor | None, rng: Any) -> PolicyLosses:
        actions = self.networks.actor(obs)
        values = self.values_for_actor([obs, actions], rng).squeeze(-1)
        if self.settings.bc_alpha is None:
            return [-weighted_mean(values, weights)], []
        distances = (actions - flat_rows(rows.actions)).square().mean(dim=1)
        scale = self.settings.bc_alpha / values.detach().abs().mean().clamp(min=1e-8)
        return [weighted_mean(distances, weights) - scale * weighted_mean(values, weights)], []

    @torch.no_grad()
    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: Any) -> Tensor:
        next_obs = self.target_views(rows, next_obs)
        actions = self.networks.target_actor(next_obs)
        if self.settings.target_policy_noise is not None:
            bound = self.settings.target_noise_clip
            noise = (normal(actions, rng) * self.settings.target_policy_noise).clamp(-bound, bound)
            actions = (actions + noise).clamp(-1.0, 1.0)
        values = self.lowest_target([next_obs, actions], rng).squeeze(-1)
        return rows.rewards + rows.discounts * mean_over_views(values, m)
