"""SAC: its configuration, its Learner, its Algorithm."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.rllib.utils.annotations import override
from torch import nn
from typing_extensions import Self

from interreplay.learning.discrete_sac import (
    ENTROPY_SHARE,
    DiscreteSACNetworks,
    DiscreteSACUpdate,
    PlainDiscreteSACUpdate,
)
from interreplay.learning.exploration import Gaussian, Sampled
from interreplay.learning.sac import PlainSACUpdate, SACNetworks, SACUpdate
from interreplay.learning.update import Update
from interreplay.rllib.algorithms.learner import OffPolicyLearner
from interreplay.rllib.algorithms.module import OffPolicyModule, flat_size
from interreplay.rllib.algorithms.off_policy import OffPolicy
from interreplay.rllib.algorithms.off_policy_config import OffPolicyConfig, check_positive

UPDATES = {False: (SACUpdate, PlainSACUpdate), True: (DiscreteSACUpdate, PlainDiscreteSACUpdate)}
"""The updates, fast and plain, by whether actions are discrete."""


class SACConfig(OffPolicyConfig):
    """Soft actor-critic with the networks and defaults of the paper (arXiv:1812.05905).

    Discrete actions are learned as in Christodoulou 2019 (arXiv:1910.07207).

    ```python
    config = SACConfig().environment("HalfCheetah-v5").replay("NMER", capacity=1_000_000, k=10)
    algorithm = config.build_algo()
    algorithm.train()
    ```

    Attributes:
        alpha_lr: Learning rate of the temperature; 0 leaves it as it is.
        initial_alpha: First temperature.
        target_entropy: In nats, or "auto" for −|A|, of n discrete actions .98·log n.
    """

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or SAC)
        self.alpha_lr = 3e-4
        self.initial_alpha = 1.0
        self.target_entropy: float | str = "auto"

    @override(OffPolicyConfig)
    def training(
        self,
        *,
        alpha_lr: float | Any = NotProvided,
        initial_alpha: float | Any = NotProvided,
        target_entropy: float | str | Any = NotProvided,
        **settings: Any,
    ) -> Self:
        """Set training options; see the class, `OffPolicyConfig.training`, and RLlib for those not named here."""
        given = {k: v for k, v in locals().items() if k not in ("self", "settings", "__class__")}
        super().training(**settings)
        self._set(given)
        return self

    @override(OffPolicyConfig)
    def validate(self) -> None:
        if type(self.exploration) is Gaussian and self.exploration.sigma == 1.0:
            self.exploration = Sampled()  # the name of the same in configurations saved before there was `Sampled`
        super().validate()
        self._check_range("alpha_lr", 0)
        check_positive("initial_alpha", self.initial_alpha)
        if self.target_entropy != "auto" and not isinstance(self.target_entropy, int | float):
            raise ValueError(f"target_entropy is {self.target_entropy!r}; expected a number or 'auto'")

    @override(AlgorithmConfig)
    def get_default_rl_module_spec(self) -> RLModuleSpec:
        return RLModuleSpec(module_class=SACModule)

    @override(AlgorithmConfig)
    def get_default_learner_class(self) -> type:
        return SACLearner

    @property
    @override(OffPolicyConfig)
    def _model_config_auto_includes(self) -> dict[str, Any]:
        return super()._model_config_auto_includes | {"initial_alpha": self.initial_alpha}


class SACModule(OffPolicyModule):
    """Actor, twin critics, targets and temperature; ``model_config`` also has ``initial_alpha``."""

    acts_in = (gym.spaces.Box, gym.spaces.Discrete)

    @property
    def discrete(self) -> bool:
        """Whether actions are discrete."""
        return isinstance(self.action_space, gym.spaces.Discrete)

    @override(OffPolicyModule)
    def make_networks(self, inputs: int, actions: int) -> nn.Module:
        hiddens, alpha = self.model_config["hiddens"], self.model_config["initial_alpha"]
        kind = DiscreteSACNetworks if self.discrete else SACNetworks
        return kind(inputs, actions, hiddens, alpha, inference_only=self.inference_only)


class SACLearner(OffPolicyLearner):
    """Learns a `SACModule`."""

    @override(OffPolicyLearner)
    def make_update(self, module: RLModule) -> Update:
        config, size = self.config, flat_size(module.action_space)
        target = config.target_entropy
        if target == "auto":
            target = ENTROPY_SHARE * math.log(size) if module.discrete else -float(size)
        fast, plain = UPDATES[module.discrete]
        return (fast if config.fast_updates else plain)(
            module.nets,
            target_entropy=target,
            alpha_lr=config.alpha_lr,
            **config.update_settings(),
        )


class SAC(OffPolicy):
    """Soft actor-critic on the fast path."""

    @classmethod
    @override(OffPolicy)
    def get_default_config(cls) -> SACConfig:
        return SACConfig()
