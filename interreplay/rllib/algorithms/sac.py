"""SAC: its RLModule, its configuration, its Algorithm."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.annotations import override
from torch import nn

from interreplay.learning.discrete_sac import DiscreteSACNetworks, DiscreteSACUpdate, PlainDiscreteSACUpdate
from interreplay.learning.exploration import Gaussian, Sampled
from interreplay.learning.sac import PlainSACUpdate, SACNetworks, SACUpdate
from interreplay.learning.settings import SACSettings
from interreplay.learning.update import Update
from interreplay.rllib.algorithms.module import OffPolicyModule, critic_settings
from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm
from interreplay.rllib.algorithms.off_policy_config import OffPolicyConfig

UPDATES = {False: (PlainSACUpdate, SACUpdate), True: (PlainDiscreteSACUpdate, DiscreteSACUpdate)}
"""The updates, plain and fast, by whether actions are discrete."""


class SACModule(OffPolicyModule):
    """Actor, critics, targets and temperature; ``model_config`` also has ``initial_alpha``.

    Attributes:
        networks: For continuous actions.
        own_keys: What `networks` take of ``model_config`` by name, beside what all do.
    """

    n_critics = SACSettings.n_critics
    acts_in: tuple[type[gym.Space], ...] = (gym.spaces.Box, gym.spaces.Discrete)
    networks: type[SACNetworks] = SACNetworks
    own_keys: tuple[str, ...] = ()

    @property
    def discrete(self) -> bool:
        """Whether actions are discrete."""
        return isinstance(self.action_space, gym.spaces.Discrete)

    @override(OffPolicyModule)
    def make_networks(self, inputs: int, actions: int) -> nn.Module:
        hiddens, alpha = self.model_config["hiddens"], self.model_config["initial_alpha"]
        kind = DiscreteSACNetworks if self.discrete else self.networks
        options = self.critic_options | {name: self.model_config[name] for name in self.own_keys}
        return kind(inputs, actions, hiddens, alpha, self.inference_only, critics=self.critic_count, **options)


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

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or SAC)

    @override(OffPolicyConfig)
    def validate(self) -> None:
        if type(self.exploration) is Gaussian and self.exploration.sigma == 1.0:
            self.exploration = Sampled()  # the name of the same in configurations saved before there was `Sampled`
        super().validate()
        self.update_settings()  # whether they fit each other

    @override(OffPolicyConfig)
    def make_update(self, module: RLModule) -> Update:
        kind = UPDATES[module.discrete][self.fast_updates]
        return kind(module.nets, **self.update_settings())

    @property
    @override(OffPolicyConfig)
    def _model_config_auto_includes(self) -> dict[str, Any]:
        return super()._model_config_auto_includes | critic_settings(self) | {"initial_alpha": self.initial_alpha}


class SAC(OffPolicyAlgorithm):
    """Soft actor-critic on the fast path."""

    config_class = SACConfig
