"""What DDPG and TD3 have in common: networks, targets and turns of a deterministic policy gradient."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.learning.actor_critic import ActorCriticUpdate
from interreplay.learning.encoders import Flat
from interreplay.learning.networks import MLP, BatchedMLP, Critics, polyak
from interreplay.learning.policies import POLICY_OUTPUT, ContinuousPolicy
from interreplay.learning.settings import DDPGSettings, TD3Settings
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


class DeterministicActor(ContinuousPolicy):
    """A policy with one action per observation, squashed by tanh into [−1, 1].

    Args:
        inputs: Numbers in an observation.
        actions: Numbers in an action.
        hiddens: Widths of the hidden layers.
    """

    def __init__(self, inputs: int, actions: int, hiddens: Sequence[int]):
        super().__init__()
        self.body, self.size = MLP([inputs, *hiddens, actions]), actions

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
    """Actor, m critics, and the targets of both.

    Args:
        inputs: Numbers in an observation.
        actions: Numbers in an action.
        hiddens: Widths of the hidden layers of all networks.
        critics: m.
        last_bound: Bound of the uniform weights with which last layers start; 1/√fan_in for None.
        inference_only: Build the actor alone.
        layer_norm: Whether the critics' hidden layers are normalized.
        dropout: Probability with which their units are left out while learning.
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
    ):
        super().__init__()
        self.encoder: nn.Module = Flat()
        self.actor = DeterministicActor(inputs, actions, hiddens)
        self.last_bound = last_bound
        if inference_only:
            self._bound_last_layers([self.actor.body])
            return
        shape = critics, inputs + actions, hiddens, layer_norm, dropout
        self.critics = Critics(*shape)
        self._bound_last_layers([self.actor.body, self.critics])
        self.target_actor = DeterministicActor(inputs, actions, hiddens).requires_grad_(False)
        self.targets = Critics(*shape).requires_grad_(False)
        self._renew_targets()

    def _bound_last_layers(self, networks: Sequence[BatchedMLP], rng: torch.Generator | None = None) -> None:
        if self.last_bound is None:
            return
        for layers in networks:
            for parameter in (layers.weights[-1], layers.biases[-1]):
                nn.init.uniform_(parameter, -self.last_bound, self.last_bound, generator=rng)

    def _renew_targets(self) -> None:
        self.target_actor.load_state_dict(self.actor.state_dict())
        self.targets.load_state_dict(self.critics.state_dict())

    def reset(self, rng: torch.Generator) -> None:
        """Draw everything but the encoder anew."""
        networks = [self.actor.body, self.critics]
        for layers in networks:
            layers.reset(rng)
        self._bound_last_layers(networks, rng)
        self._renew_targets()


class DeterministicUpdate(ActorCriticUpdate):
    """What the updates of deterministic policies share: the actor's target, which moves when the policy does.

    Args:
        networks: What is learned, with ``target_actor`` too.
        **options: Those of `ActorCriticUpdate`, settings by name among them.
    """

    metrics = ("critic_loss", "actor_loss", "q_mean")

    def __init__(self, networks: Any, **options: Any):
        super().__init__(networks, **options)
        self.target_actor: list[Tensor] = list(networks.target_actor.parameters())
        self.actor_loss = torch.zeros((), device=self.critics[0].device)

    @abstractmethod
    def target_actions(self, next_obs: Tensor, rng: torch.Generator) -> Tensor:
        """Return actions a' ``(n, actions)`` at which targets are evaluated."""

    @torch.no_grad()
    def target_values(self, rows: Transitions, next_obs: Tensor, m: int, rng: torch.Generator) -> Tensor:
        next_obs = self.target_views(rows, next_obs)
        values = self.lowest_target(torch.cat([next_obs, self.target_actions(next_obs, rng)], dim=1), rng)
        return rows.rewards + rows.discounts * mean_over_views(values.squeeze(-1), m)

    def move_targets(self) -> None:
        """Move the targets of critics, encoder and actor."""
        super().move_targets()
        polyak(self.target_actor, [*self.actor], self.tau)

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"actor_loss": self.actor_loss.cpu().numpy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.actor_loss = torch.as_tensor(state["actor_loss"], device=self.actor_loss.device).clone()


class PlainDeterministicUpdate(DeterministicUpdate):
    """The update of DDPG and of TD3 in plain PyTorch; these say what is particular."""

    def update(self, batch: SampleLike, rng: torch.Generator) -> UpdateResult:
        rows, nets = batch.transitions, self.networks
        obs, next_obs, m = views(rows, nets.encoder)
        target = self.target_for(batch, next_obs, m, rng)
        critic_loss, errors = self.critic_loss(batch, obs, m, target, rng)
        scores = self.scores(self.scores_wanted, rows, obs, m, errors, target)
        self.minimize(critic_loss, "critic")
        self.updates += 1
        if self.actor_due():
            actor_loss = self.actor_loss_of(batch, self.actor_views(rows, obs, m), rng)
            self.minimize(actor_loss, "actor")
            self.move_targets()
            self.actor_loss = actor_loss.detach()
        self.reset_when_due(rng)
        metrics = torch.stack([critic_loss, self.actor_loss.to(critic_loss), (errors + target).mean()])
        return UpdateResult(errors.mean(dim=0).detach(), metrics.detach(), scores)

    def critic_loss(
        self, batch: SampleLike, obs: Tensor, m: int, target: Tensor, rng: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return the critics' loss for observations ``(n·m, d)``, and TD errors ``(critics, n)``."""
        actions, critics = repeat_for_views(batch.transitions.actions.flatten(1), m), self.networks.critics
        values = critics(torch.cat([obs, actions], dim=1), critics.draw_dropped(obs, rng))
        errors = mean_over_views(values, m) - target
        losses = batch.weights * 2.0 * self.loss_for(batch).values(errors)
        return weighted_mean(losses, batch.row_weights).sum(), errors

    def actor_loss_of(self, batch: SampleLike, obs: Tensor, rng: torch.Generator) -> Tensor:
        """Return the actor's loss for observations ``(n, d)``."""
        actions = self.networks.actor(obs)
        values = self.judgment(self.networks.critics(torch.cat([obs, actions], dim=1), *self.judges(obs, rng)))
        return self.objective(values, actions, batch)

    def objective(self, values: Tensor, actions: Tensor, batch: SampleLike) -> Tensor:
        """Return the actor's loss of its actions ``(n, actions)`` and of their values ``(n,)``."""
        return -weighted_mean(values, actor_row_weights(batch))


class DelayedUpdate(DeterministicUpdate):
    """What the updates of TD3 share: smoothed targets, and a policy that waits for its turn."""

    standard = TD3Settings()

    def target_actions(self, next_obs: Tensor, rng: torch.Generator) -> Tensor:
        """Return a' = clip(π'(s') + clip(ε, −c, c), −1, 1) ``(n, actions)``, ε ~ N(0, σ²)."""
        actions, bound = self.networks.target_actor(next_obs), self.settings.target_noise_clip
        noise = normal(actions, rng).mul_(self.settings.target_policy_noise)
        return (actions + noise.clamp_(-bound, bound)).clamp_(-1.0, 1.0)


class ImmediateUpdate(DeterministicUpdate):
    """What the updates of DDPG share: its learning rates, and a' = π'(s').

    Where no settings are given, its critics have no L2 term, which its configuration has by default.
    """

    standard = DDPGSettings(critic_l2=0.0)

    def target_actions(self, next_obs: Tensor, rng: torch.Generator) -> Tensor:
        return self.networks.target_actor(next_obs)

    def actor_due(self) -> bool:
        return True
