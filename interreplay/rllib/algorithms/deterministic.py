"""What DDPG and TD3 share in RLlib: configuration and RLModule of a deterministic policy."""

from __future__ import annotations

from typing import Any

import torch
from ray.rllib.utils.annotations import override
from torch import Tensor, nn

from interreplay.learning.deterministic import DeterministicNetworks
from interreplay.learning.exploration import make_exploration
from interreplay.rllib.algorithms.module import OffPolicyModule, flat_size
from interreplay.rllib.algorithms.off_policy_config import OffPolicyConfig
from interreplay.settings import defaults


class DeterministicConfig(OffPolicyConfig):
    """Settings shared by the algorithms with a deterministic policy, see `DeterministicSettings`.

    ``exploration`` may also be a `Gaussian`, an `OrnsteinUhlenbeck`, another
    `interreplay.learning.exploration.Exploration`, or a mapping such as ``{"type": "Gaussian", "sigma": 0.1}``.
    """

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class)
        self.exploration = defaults(self.settings_class)["exploration"]

    @override(OffPolicyConfig)
    def validate(self) -> None:
        if isinstance(self.exploration, str):
            named = {"type": self.exploration, "sigma": self.exploration_sigma}
            named |= {"theta": self.exploration_theta} if self.exploration == "OrnsteinUhlenbeck" else {}
            self.exploration = make_exploration(named)
        self.exploration = make_exploration(self.exploration)
        super().validate()

    @override(OffPolicyConfig)
    def _check_setting(self, name: str, accepts: Any) -> None:
        if name != "exploration":  # what stands for its name by now has been checked
            super()._check_setting(name, accepts)


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
