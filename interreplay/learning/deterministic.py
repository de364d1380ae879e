"""What DDPG and TD3 have in common: networks, targets and turns of a deterministic policy gradient."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.learning.actor_critic import ActorCriticUpdate
from interreplay.learning.encoders import Flat
from interreplay.learning.networks import MLP, Critics, polyak
from interreplay.learning.policies import POLICY_OUTPUT, ContinuousPolicy
from interreplay.learning.settings import TD3Settings
from interreplay.learning.update import normal


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
    """

    def __init__(
        self,
        inputs: int,
        actions: int,
        hiddens: Sequence[int] = (256, 256),
        critics: int = 2,
        last_bound: float | None = None,
        inference_only: bool = False,
    ):
        super().__init__()
        self.encoder: nn.Module = Flat()
        self.actor = DeterministicActor(inputs, actions, hiddens)
        last = [self.actor.body.weights[-1], self.actor.body.biases[-1]]
        if not inference_only:
            self.critics = Critics(critics, inputs + actions, hiddens)
            last += [self.critics.weights[-1], self.critics.biases[-1]]
        if last_bound is not None:
            for parameter in last:
                nn.init.uniform_(parameter, -last_bound, last_bound)
        if inference_only:
            return
        self.target_actor = DeterministicActor(inputs, actions, hiddens).requires_grad_(False)
        self.targets = Critics(critics, inputs + actions, hiddens).requires_grad_(False)
        self.target_actor.load_state_dict(self.actor.state_dict())
        self.targets.load_state_dict(self.critics.state_dict())


class DeterministicUpdate(ActorCriticUpdate):
    """What the updates of deterministic policies share: the actor's target, and a policy that may wait for its turn.

    Args:
        networks: What is learned, with ``target_actor`` too.
        **settings: Those of `ActorCriticUpdate`.

    Attributes:
        updates: Their number so far.
    """

    metrics = ("critic_loss", "actor_loss", "q_mean")

    def __init__(self, networks: Any, **settings: Any):
        super().__init__(networks, **settings)
        self.target_actor: list[Tensor] = list(networks.target_actor.parameters())
        self.updates = 0
        self.actor_loss = torch.zeros((), device=self.critics[0].device)

    @abstractmethod
    def target_actions(self, next_obs: Tensor, rng: torch.Generator) -> Tensor:
        """Return actions a' ``(n, actions)`` at which targets are evaluated."""

    def actor_due(self) -> bool:
        """Return whether this update is one of the actor and the targets too; `updates` counts from 1 on."""
        return True

    def move_targets(self) -> None:
        """Move the targets of critics, encoder and actor."""
        super().move_targets()
        polyak(self.target_actor, [*self.actor], self.tau)

    def state_dict(self) -> dict[str, Any]:
        return {"updates": self.updates, "actor_loss": self.actor_loss.cpu().numpy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.updates = int(state["updates"])
        self.actor_loss = torch.as_tensor(state["actor_loss"], device=self.actor_loss.device).clone()


class DelayedUpdate(DeterministicUpdate):
    """What the updates of TD3 share: smoothed targets, and the turn of the policy.

    Args:
        networks: What is learned.
        policy_delay: d, critics' updates per update of the actor and the targets.
        target_policy_noise: σ of the noise on a'.
        target_noise_clip: c, bound of that noise.
        **settings: Those of `ActorCriticUpdate`.
    """

    def __init__(
        self,
        networks: Any,
        policy_delay: int = TD3Settings.policy_delay,
        target_policy_noise: float = TD3Settings.target_policy_noise,
        target_noise_clip: float = TD3Settings.target_noise_clip,
        **settings: Any,
    ):
        super().__init__(networks, **settings)
        self.policy_delay = policy_delay
        self.target_policy_noise, self.target_noise_clip = target_policy_noise, target_noise_clip

    def target_actions(self, next_obs: Tensor, rng: torch.Generator) -> Tensor:
        """Return a' = clip(π'(s') + clip(ε, −c, c), −1, 1) ``(n, actions)``, ε ~ N(0, σ²)."""
        actions = self.networks.target_actor(next_obs)
        noise = normal(actions, rng).mul_(self.target_policy_noise)
        return (actions + noise.clamp_(-self.target_noise_clip, self.target_noise_clip)).clamp_(-1.0, 1.0)

    def actor_due(self) -> bool:
        return self.updates % self.policy_delay == 0


class ImmediateUpdate(DeterministicUpdate):
    """What the updates of DDPG share: its learning rates, and a' = π'(s').

    Args:
        networks: What is learned.
        actor_lr: Learning rate of the actor.
        critic_lr: Learning rate of the critics.
        tau: Share of the way that targets move per update.
        **settings: The others of `ActorCriticUpdate`.
    """

    def __init__(
        self, networks: Any, actor_lr: float = 1e-4, critic_lr: float = 1e-3, tau: float = 0.001, **settings: Any
    ):
        super().__init__(networks, actor_lr=actor_lr, critic_lr=critic_lr, tau=tau, **settings)

    def target_actions(self, next_obs: Tensor, rng: torch.Generator) -> Tensor:
        return self.networks.target_actor(next_obs)
