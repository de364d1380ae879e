"""TQC: its RLModule, its configuration, its Algorithm."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.annotations import override

from interreplay.learning.soft_settings import TQCSettings
from interreplay.learning.tqc import PlainTQCUpdate, TQCNetworks, TQCUpdate
from interreplay.learning.update import Update
from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm
from interreplay.rllib.algorithms.sac import SACConfig, SACModule


class TQCModule(SACModule):
    """Actor, quantile critics, targets and temperature."""

    acts_in = (gym.spaces.Box,)
    own_keys = ("n_quantiles",)
    networks = TQCNetworks


class TQCConfig(SACConfig):
    """Truncated quantile critics (arXiv:2005.04269); `TQCSettings` has what is its own.

    ```python
    config = TQCConfig().environment("HalfCheetah-v5").replay("NMER", capacity=1_000_000, k=10)
    ```
    """

    settings_class = TQCSettings
    module_class = TQCModule

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or TQC)

    @override(SACConfig)
    def make_update(self, module: RLModule) -> Update:
        kind = TQCUpdate if self.fast_updates else PlainTQCUpdate
        return kind(module.nets, **self.update_settings())

    @property
    @override(SACConfig)
    def layers(self) -> str:
        return f"{super().layers}, {self.n_critics} critics of {self.n_quantiles} quantiles"

    @property
    @override(SACConfig)
    def _model_config_auto_includes(self) -> dict[str, Any]:
        return super()._model_config_auto_includes | {"n_quantiles": self.n_quantiles}


class TQC(OffPolicyAlgorithm):
    """Truncated quantile critics on the fast path."""

    config_class = TQCConfig
