"""What DDPG and TD3 share in RLlib: configuration and RLModule of a deterministic policy."""

from __future__ import annotations

from ray.rllib.utils.annotations import override
from torch import nn

from interreplay.learning.deterministic import DeterministicNetworks
from interreplay.learning.exploration import Gaussian
from interreplay.rllib.algorithms.module import OffPolicyModule
from interreplay.rllib.algorithms.off_policy_config import OffPolicyConfig


class DeterministicConfig(OffPolicyConfig):
    """Settings shared by the algorithms with a deterministic policy."""

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class)
        self.exploration = Gaussian(0.1)


class DeterministicModule(OffPolicyModule):
    """Actor, m critics, and targets of both.

    Attributes:
        critics: m.
        last_bound: Bound of the weights with which last layers start; None for that of other layers.
    """

    critics: int
    last_bound: float | None = None

    @override(OffPolicyModule)
    def make_networks(self, inputs: int, actions: int) -> nn.Module:
        return DeterministicNetworks(
            inputs, actions, self.model_config["hiddens"], self.critics, self.last_bound, self.inference_only
        )
