"""SAC: its RLModule, its configuration, its Algorithm."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import torch
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.annotations import override
from torch import Tensor, nn

from interreplay.learning.discrete_sac import ENTROPY_SHARE, DiscreteSACNetworks, DiscreteSACUpdate
from interreplay.learning.sac import SACNetworks, SACUpdate
from interreplay.learning.settings import SACSettings
from interreplay.learning.update import Update
from interreplay.rllib.algorithms.module import OffPolicyModule, flat_size
from interreplay.rllib.algorithms.off_policy import OffPolicy
from interreplay.rllib.algorithms.off_policy_config import OffPolicyConfig


class SACModule(OffPolicyModule):
    """Actor, twin critics, targets and temperature; ``model_config`` also has ``initial_alpha``."""

    acts_in = (gym.spaces.Box, gym.spaces.Discrete)

    @property
    def discrete(self) -> bool:
        """Whether actions are discrete."""
        return isinstance(self.action_space, gym.spaces.Discrete)

    @property
    def gaussian(self) -> bool:  # type: ignore[override]
        return not self.discrete

    @override(OffPolicyModule)
    def make_networks(self, inputs: int, actions: int) -> nn.Module:
        hiddens, alpha = self.model_config["hiddens"], self.model_config["initial_alpha"]
        kind = DiscreteSACNetworks if self.discrete else SACNetworks
        return kind(inputs, actions, hiddens, alpha, inference_only=self.inference_only)

    @override(OffPolicyModule)
    def behavior(self, obs: Tensor) -> Tensor:
        """[mean; log std] ``(n, 2·actions)`` of the Gaussian that the policy squashes, or probabilities ``(n, A)``."""
        return self.nets.actor(obs).exp() if self.discrete else self.nets.actor.distribution(obs)

    @override(OffPolicyModule)
    def random_behavior(self, count: int) -> Tensor:
        """Mean and log std ``(count, 2·actions)`` of uniform actions, or their probabilities."""
        size = flat_size(self.action_space)
        if self.discrete:
            return torch.full((count, size), 1.0 / size)
        return torch.tensor([0.0, -0.5 * math.log(3.0)]).repeat_interleave(size).expand(count, -1)


class SACConfig(OffPolicyConfig):
    """Soft actor-critic with the networks and defaults of the paper (arXiv:1812.05905).

    Discrete actions are learned as in Christodoulou 2019 (arXiv:1910.07207). `SACSettings` has what is its own.

    ```python
    config = SACConfig().environment("HalfCheetah-v5").replay("NMER", capacity=1_000_000, k=10)
    algorithm = config.build_algo()
    algorithm.train()
    ```
    """

    settings_class = SACSettings
    module_class = SACModule

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or SAC)

    @override(OffPolicyConfig)
    def make_update(self, module: RLModule) -> Update:
        size, target = flat_size(module.action_space), self.target_entropy
        if target == "auto":
            target = ENTROPY_SHARE * math.log(size) if module.discrete else -float(size)
        update = DiscreteSACUpdate if module.discrete else SACUpdate
        return update(module.nets, target_entropy=target, alpha_lr=self.rates(0)["alpha"], **self.update_settings())

    @property
    @override(OffPolicyConfig)
    def _model_config_auto_includes(self) -> dict[str, Any]:
        return super()._model_config_auto_includes | {"initial_alpha": self.initial_alpha}


class SAC(OffPolicy):
    """Soft actor-critic on the fast path."""

    config_class = SACConfig
