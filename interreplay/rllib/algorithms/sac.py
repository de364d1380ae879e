"""SAC: its RLModule, its configuration, its Algorithm."""

from __future__ import annotations

from typing import ClassVar

import gymnasium as gym
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.annotations import override
from torch import nn

from interreplay.learning.discrete_sac import DiscreteSACNetworks, DiscreteSACUpdate, PlainDiscreteSACUpdate
from interreplay.learning.exploration import Gaussian, Sampled
from interreplay.learning.sac import PlainSACUpdate, SACNetworks, SACUpdate
from interreplay.learning.settings import SACSettings
from interreplay.learning.update import Update
from interreplay.rllib.algorithms.module import CRITIC_SETTINGS, OffPolicyModule
from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm
from interreplay.rllib.algorithms.off_policy_config import OffPolicyConfig, Updates


class SACModule(OffPolicyModule):
    """Actor, critics, targets and temperature.

    Attributes:
        networks: For continuous actions.
    """

    n_critics = SACSettings.n_critics
    acts_in: tuple[type[gym.Space], ...] = (gym.spaces.Box, gym.spaces.Discrete)
    networks: type[SACNetworks] = SACNetworks
    settings: tuple[str, ...] = (*CRITIC_SETTINGS, "initial_alpha")

    @property
    def discrete(self) -> bool:
        """Whether actions are discrete."""
        return isinstance(self.action_space, gym.spaces.Discrete)

    @override(OffPolicyModule)
    def make_networks(self, inputs: int, actions: int) -> nn.Module:
        kind, model = DiscreteSACNetworks if self.discrete else self.networks, self.model_config
        names = [name for name in self.settings if name in model and name not in CRITIC_SETTINGS]
        options = self.critic_options | {"critics": self.critic_count} | {name: model[name] for name in names}
        return kind(inputs, actions, model["hiddens"], inference_only=self.inference_only, **options)


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
    updates: ClassVar[Updates] = (PlainSACUpdate, SACUpdate)
    discrete_updates = (PlainDiscreteSACUpdate, DiscreteSACUpdate)

    @override(OffPolicyConfig)
    def validate(self) -> None:
        if type(self.exploration) is Gaussian and self.exploration.sigma == 1.0:
            self.exploration = Sampled()  # the name of the same in configurations saved before there was `Sampled`
        super().validate()
        self.update_settings()  # whether they fit each other

    @override(OffPolicyConfig)
    def make_update(self, module: RLModule) -> Update:
        updates = self.discrete_updates if module.discrete else self.updates
        return updates[self.fast_updates](module.nets, **self.update_settings())


class SAC(OffPolicyAlgorithm):
    """Soft actor-critic on the fast path."""

    config_class = SACConfig
