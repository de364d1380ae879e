"""SAC: its RLModule, its configuration, its Algorithm."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.annotations import override

from interreplay.learning.actor_critic.discrete_sac import DiscreteSACUpdate
from interreplay.learning.actor_critic.sac import SACUpdate
from interreplay.learning.architectures import ARCHITECTURES
from interreplay.learning.exploration import Gaussian, Sampled
from interreplay.learning.settings import SACSettings
from interreplay.learning.update import Update
from interreplay.rllib.algorithms.module import OffPolicyModule
from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm
from interreplay.rllib.algorithms.off_policy_config import OffPolicyConfig


class SACModule(OffPolicyModule):
    """Actor, critics, targets and temperature."""

    architecture = ARCHITECTURES["SAC"]

    @property
    def discrete(self) -> bool:
        """Whether actions are discrete."""
        return isinstance(self.action_space, gym.spaces.Discrete)


class SACConfig(OffPolicyConfig):
    """Soft actor-critic with the networks and defaults of the paper (arXiv:1812.05905).

    Discrete actions are learned as in Christodoulou 2019 (arXiv:1910.07207). `SACSettings` has what is its own.

    ```python
    config = SACConfig().environment("HalfCheetah-v5").replay("NMER", capacity=1_000_000, k=10)
    algorithm = config.build_algo()
    algorithm.train()
    ```
    """

    settings_class: ClassVar[type] = SACSettings
    module_class = SACModule
    update_class: ClassVar[Any] = SACUpdate

    @override(OffPolicyConfig)
    def validate(self) -> None:
        if type(self.exploration) is Gaussian and self.exploration.sigma == 1.0:
            self.exploration = Sampled()  # the name of the same in configurations saved before there was `Sampled`
        super().validate()
        self.update_settings()  # whether they fit each other

    @override(OffPolicyConfig)
    def make_update(self, module: RLModule) -> Update:
        kind = self.update_class
        if module.discrete and kind is SACUpdate:
            kind = DiscreteSACUpdate
        return kind(module.nets, **self.update_settings())


class SAC(OffPolicyAlgorithm):
    """Soft actor-critic on the fast path."""

    config_class = SACConfig
