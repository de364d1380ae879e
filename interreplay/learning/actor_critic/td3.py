"""Twin delayed DDPG (Fujimoto et al. 2018, arXiv:1802.09477), DDPG and TD3+BC as one update with different settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.learning.actor_critic.actor_critic import ActorCriticUpdate, PolicyLosses, next_noise
from interreplay.learning.networks.encoders import Flat
from interreplay.learning.networks.layers import MLP, BatchedMLP
from interreplay.learning.networks.residual_layers import ResidualMLP
from interreplay.learning.policies import POLICY_OUTPUT, ContinuousPolicy
from interreplay.learning.settings import TD3Settings
from interreplay.learning.update import (
    flat_rows,
    mean_over_views,
    normal,
    weighted_mean,
)
from interreplay.transitions import Transitions


class DeterministicActor(ContinuousPolicy):
    """A policy with one action per observation, squashed by tanh into [−1, 1].

    Args:
        inputs: Width of an observation.
        actions: Width of an action.
        hiddens: Widths of the hidden layers.
        blocks: Number of residual blocks, see `ResidualMLP`; 0 for plain layers.
        width: Width of a network with residual blocks.
    """

    def __init__(self, inputs: int, actions: int, hiddens: Sequence[int], blocks: int = 0, width: int = 128):
        super().__init__()
        self.body: Any = MLP([inputs, *hiddens, actions])
        if blocks:
            self.body = ResidualMLP(1, inputs, width, blocks, actions)
        self.size = actions

    def forward(self, obs: Tensor) -> Tensor:
        """Return actions ``(n, actions)`` for observations ``(n, inputs)``."""
        return torch.tanh(self.body(obs))

    def output(self, obs: Tensor) -> Tensor:
        """Return actions ``(n, actions)``."""
        return torch.tanh(self.body.outputs(obs)[0])

    def mode(self, output: Tensor) -> Tensor:
        return output

    def record(self, output: Tensor) -> dict[str, Tensor]:
        """Return the actions, without noise."""
        return {POLICY_OUTPUT: output}

    def record_random(self, count: int) -> dict[str, Tensor]:
        """Return the mean of uniform actions."""
        return {POLICY_OUTPUT: torch.zeros(count, self.size)}


class DeterministicNetworks(nn.Module):
    """Actor, m critics, and target networks of both.

    Args:
        inputs: Width of an observation.
        actions: Width of an action.
        hiddens: Widths of the hidden layers of all networks.
        critics: Number of critics m.
        last_bound: Bound of the uniform initial weights of last layers; None for 1/√fan_in.
        inference_only: Build the actor alone.
        layer_norm: Whether the critics' hidden layers are normalized.
        dropout: Probability with which the critics' hidden units are dropped while learning.
        critic_blocks: Number of residual blocks of the critics, see `ResidualMLP`; 0 for plain layers.
        critic_width: Width of critics with residual blocks.
        actor_blocks: Number of residual blocks of the actor; 0 for plain layers.
        actor_width: Width of an actor with residual blocks.
    """

    def __init__(
        self,
        inputs: int,
        actions: int,
        hiddens: Sequence[int] = (256, 256),
        critics: int = 2,
        last_bound: float | None = None,
        inference_only: bool = False,
        layer_norm: bool = False,
        dropout: float = 0.0,
        critic_blocks: int = 0,
        critic_width: int = 128,
        actor_blocks: int = 0,
        actor_width: int = 128,
    ):
        super().__init__()
        self.encoder: nn.Module = Flat()
        of_actor = (inputs, actions, hiddens, actor_blocks, actor_width)
        self.actor = DeterministicActor(*of_actor)
        self.last_bound = last_bound
        if inference_only:
            self.bound_last_layers([self.actor.body])
            return

        def make_critics() -> BatchedMLP:
            if critic_blocks:
                return ResidualMLP(critics, inputs + actions, critic_width, critic_blocks, 1)
            return BatchedMLP(critics, [inputs + actions, *hiddens, 1], layer_norm, dropout)

        self.critics = make_critics()
        self.bound_last_layers([self.actor.body, self.critics])
        self.target_actor = DeterministicActor(*of_actor).requires_grad_(False)
        self.targets = make_critics().requires_grad_(False)
        self.copy_to_targets()

    def bound_last_layers(self, networks: Sequence[Any], rng: torch.Generator | None = None) -> None:
        """Draw the last layers of networks uniformly within ±`last_bound`, unless it is None."""
        if self.last_bound is None:
            return
        for layers in networks:
            if isinstance(layers, BatchedMLP):
                last = [layers.weights[-1], layers.biases[-1]]
            else:
                last = layers.last_parameters()
            for parameter in last:
                nn.init.uniform_(parameter, -self.last_bound, self.last_bound, generator=rng)

    def copy_to_targets(self) -> None:
        """Copy actor and critics to their target networks."""
        self.target_actor.load_state_dict(self.actor.state_dict())
        self.targets.load_state_dict(self.critics.state_dict())

    def reset(self, rng: torch.Generator) -> None:
        """Draw everything but the encoder again."""
        networks = [self.actor.body, self.critics]
        for layers in networks:
            layers.reset(rng)
        self.bound_last_layers(networks, rng)
        self.copy_to_targets()


class TD3Update(ActorCriticUpdate):
    """The update of TD3: critics, and at every d-th update the actor and all target networks.

    With q_t = r + discounts·min_j Q'_j(s', a'), a' = clip(π'(s') + clip(ε, −c, c), −1, 1), ε ~ N(0, σ²):

    * critics: Σ_j mean(v·w·δ_j²), δ_j = Q_j(s, a) − q_t, w the importance weights, Q_j and q_t means over a row's
      views. `huber_delta` replaces δ² by twice Huber's loss, `pal_alpha` by twice PAL; a loss defined by the rows
      replaces either;
    * actor: mean(−v·Q_1(s, π(s))).

    v are the row weights, 1 by default, and for the actor times the actor's weights. L2 terms are part of the
    gradients, not of the reported losses. With `target_subset`, the minimum of the target is over critics drawn for
    this update. `actor_target` replaces Q_1 by the minimum or the mean of the critics, `critic_target` "mean" the
    minimum of the target and Q_1 by means. With `critic_dropout`, each pass of critics or targets draws its own dropped
    units. With `bc_alpha`, the actor's loss is TD3+BC's, see `cloning_loss`.

    DDPG (Lillicrap et al. 2016, arXiv:1509.02971) is this update with the settings of `DDPGSettings`: d = 1 and
    a' = π'(s'), without noise.

    Args:
        networks: Networks with ``target_actor``, see `ActorCriticUpdate`.
        **options: Arguments of `ActorCriticUpdate`, including settings by name.
    """

    metrics = ("critic_loss", "actor_loss", "q_mean")
    delays_targets = True
    loss_scale = 2.0
    standard = TD3Settings()

    def __init__(self, networks: Any, **options: Any):
        super().__init__(networks, **options)
        self.targets += networks.target_actor.parameters()
        self.policy_metrics = [self.actor[0].detach().new_zeros(())]

    def target_sources(self) -> list[Tensor]:
        return [*self.critics, *self.actor]

    def target_noise(self, rows: Transitions, m: int, rng: torch.Generator) -> Tensor | None:
        return None if self.settings.target_policy_noise is None else next_noise(rows, m, rng)

    def policy_losses(self, rows: Transitions, obs: Tensor, weights: Tensor | None, rng: Any) -> PolicyLosses:
        actions = self.networks.actor(obs)
        values = self.values_for_actor([obs, actions], rng).squeeze(-1)
        if self.settings.bc_alpha is None:
            return [-weighted_mean(values, weights)], []
        return [cloning_loss(values, actions, flat_rows(rows.actions), weights, self.settings.bc_alpha)], []

    @torch.no_grad()
    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: Any) -> Tensor:
        next_obs = self.target_views(rows, next_obs)
        values = self.lowest_target([next_obs, self.target_actions(next_obs, rng)], rng).squeeze(-1)
        return rows.rewards + rows.discounts * mean_over_views(values, m)

    @torch.no_grad()
    def target_actions(self, next_obs: Tensor, rng: Any) -> Tensor:
        """Return the actions a' ``(n, actions)`` of the target; without `target_policy_noise`, nothing is drawn."""
        actions = self.networks.target_actor(next_obs)
        if self.settings.target_policy_noise is None:
            return actions
        bound = self.settings.target_noise_clip
        noise = (normal(actions, rng) * self.settings.target_policy_noise).clamp(-bound, bound)
        return (actions + noise).clamp(-1.0, 1.0)


def cloning_loss(values: Tensor, actions: Tensor, taken: Tensor, weights: Tensor | None, alpha: float) -> Tensor:
    """Return the actor's loss of TD3+BC (Fujimoto & Gu 2021, arXiv:2106.06860).

    −λ·mean(v·Q(s, π(s))) + mean(v·(π(s) − a)²), the squares means over an action's numbers, λ = α / mean|Q| without a
    gradient.

    Args:
        values: Q(s, π(s)) ``(n,)``.
        actions: π(s) ``(n, actions)``, in [−1, 1].
        taken: a ``(n, actions)``, the actions in the rows.
        weights: v ``(n,)``, or None for equal weights.
        alpha: α.
    """
    distances = (actions - taken).square().mean(dim=1)
    scale = alpha / values.detach().abs().mean().clamp(min=1e-8)
    return weighted_mean(distances, weights) - scale * weighted_mean(values, weights)
