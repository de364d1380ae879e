"""What DDPG and TD3 share in RLlib: configuration and RLModule of a deterministic policy."""

from __future__ import annotations

from typing import Any

import torch
from ray.rllib.algorithms.algorithm_config import NotProvided
from ray.rllib.utils.annotations import override
from torch import Tensor, nn
from typing_extensions import Self

from interreplay.learning.deterministic import DeterministicNetworks
from interreplay.learning.exploration import Exploration, Gaussian, make_exploration
from interreplay.rllib.config import OffPolicyConfig, check_positive
from interreplay.rllib.module import OffPolicyModule, flat_size


class DeterministicConfig(OffPolicyConfig):
    """Settings shared by the algorithms with a deterministic policy.

    Attributes:
        actor_lr: Learning rate of the actor.
        critic_lr: Learning rate of the critics.
        actor_l2: c of an L2 term c·½‖θ‖² in the actor's loss.
        critic_l2: The same in the critics' loss.
        huber_delta: TD error up to which the critics' loss is square, linear beyond; None for square everywhere.
        exploration: `Gaussian`, `OrnsteinUhlenbeck`, or another `interreplay.learning.exploration.Exploration`; also
            as ``{"type": "Gaussian", "sigma": 0.1}``.
    """

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class)
        self.actor_lr = 3e-4
        self.critic_lr = 3e-4
        self.actor_l2 = 0.0
        self.critic_l2 = 0.0
        self.huber_delta: float | None = None
        self.exploration = Gaussian(0.1)

    @override(OffPolicyConfig)
    def training(
        self,
        *,
        actor_lr: float | Any = NotProvided,
        critic_lr: float | Any = NotProvided,
        actor_l2: float | Any = NotProvided,
        critic_l2: float | Any = NotProvided,
        huber_delta: float | None | Any = NotProvided,
        exploration: Exploration | dict[str, Any] | Any = NotProvided,
        **settings: Any,
    ) -> Self:
        """Set training options; see the class, `OffPolicyConfig.training`, and RLlib for those not named here."""
        given = {k: v for k, v in locals().items() if k not in ("self", "settings", "__class__")}
        super().training(**settings)
        self._set(given)
        return self

    @override(OffPolicyConfig)
    def validate(self) -> None:
        super().validate()
        check_positive("actor_lr", self.actor_lr)
        check_positive("critic_lr", self.critic_lr)
        self._check_range("actor_l2", 0)
        self._check_range("critic_l2", 0)
        if self.huber_delta is not None:
            check_positive("huber_delta", self.huber_delta)
        self.exploration = make_exploration(self.exploration)

    def update_settings(self) -> dict[str, Any]:
        """Arguments of the update."""
        names = ("actor_lr", "critic_lr", "tau", "actor_l2", "critic_l2", "huber_delta", "grad_clip")
        return {name: getattr(self, name) for name in names}


class DeterministicModule(OffPolicyModule):
    """Actor, m critics, and targets of both.

    Attributes:
        critics: m.
        last_bound: Bound of the weights with which last layers start; None for that of other layers.
    """

    gaussian = False
    critics: int
    last_bound: float | None = None

    @override(OffPolicyModule)
    def make_networks(self, inputs: int, actions: int) -> nn.Module:
        return DeterministicNetworks(
            inputs, actions, self.model_config["hiddens"], self.critics, self.last_bound, self.inference_only
        )

    @override(OffPolicyModule)
    def behavior(self, obs: Tensor) -> Tensor:
        """The policy's actions ``(n, actions)``, without noise."""
        return self.nets.actor(obs)

    @override(OffPolicyModule)
    def random_behavior(self, count: int) -> Tensor:
        """The mean ``(count, actions)`` of uniform actions."""
        return torch.zeros(count, flat_size(self.action_space))
