"""TQC: its RLModule, its configuration, its Algorithm."""

from __future__ import annotations

from typing import Any

from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.annotations import override
from torch import nn

from interreplay.learning.settings import TQCSettings
from interreplay.learning.tqc import FastTQCUpdate, PlainTQCUpdate, TQCNetworks
from interreplay.learning.update import Update
from interreplay.rllib.algorithms.module import OffPolicyModule
from interreplay.rllib.algorithms.off_policy import OffPolicy
from interreplay.rllib.algorithms.soft import SoftConfig


class TQCModule(OffPolicyModule):
    """Actor, quantile critics, targets and temperature."""

    @override(OffPolicyModule)
    def make_networks(self, inputs: int, actions: int) -> nn.Module:
        names = ("hiddens", "initial_alpha", "n_critics", "n_quantiles")
        given = {name: self.model_config[name] for name in names}
        return TQCNetworks(inputs, actions, **given, inference_only=self.inference_only)


class TQCConfig(SoftConfig):
    """Truncated quantile critics (arXiv:2005.04269), the paper's but for the number of critics; see `TQCSettings`.

    ```python
    config = TQCConfig().environment("HalfCheetah-v5").replay("NMER", capacity=1_000_000, k=10)
    ```
    """

    settings_class = TQCSettings
    module_class = TQCModule

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or TQC)

    @override(SoftConfig)
    def validate(self) -> None:
        super().validate()
        if self.drop_per_critic >= self.n_quantiles:
            most = f"at most {self.n_quantiles - 1}, one less than n_quantiles"
            raise ValueError(f"drop_per_critic is {self.drop_per_critic}; expected {most}")

    @override(SoftConfig)
    def make_update(self, module: RLModule) -> Update:
        kind = FastTQCUpdate if self.fast_updates else PlainTQCUpdate
        return kind(module.nets, drop_per_critic=self.drop_per_critic, **self.soft_settings(module))

    @property
    @override(SoftConfig)
    def layers(self) -> str:
        return f"{super().layers}, {self.n_critics} critics of {self.n_quantiles} quantiles"

    @property
    @override(SoftConfig)
    def _model_config_auto_includes(self) -> dict[str, Any]:
        own = {"n_critics": self.n_critics, "n_quantiles": self.n_quantiles}
        return super()._model_config_auto_includes | own


class TQC(OffPolicy):
    """Truncated quantile critics on the fast path."""

    config_class = TQCConfig
