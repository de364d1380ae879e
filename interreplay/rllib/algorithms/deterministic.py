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
from interreplay.rllib.algorithms.module import OffPolicyModule, flat_size
from interreplay.rllib.algorithms.off_policy_config import OffPolicyConfig


class DeterministicConfig(OffPolicyConfig):
    """Settings shared by the algorithms with a deterministic policy.

    Attributes:
        exploration: `Gaussian`, `OrnsteinUhlenbeck`, or another `interreplay.learning.exploration.Exploration`; also
            as ``{"type": "Gaussian", "sigma": 0.1}``.
    """

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class)
        self.exploration = Gaussian(0.1)

    @override(OffPolicyConfig)
    def training(
        self,
        *,
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
        self.exploration = make_exploration(self.exploration)


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
