"""CrossQ: its RLModule, its configuration, its Algorithm."""

from __future__ import annotations

from typing import Any

from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.annotations import override
from torch import nn

from interreplay.learning.crossq import CrossQNetworks, CrossQUpdate, critic_widths
from interreplay.learning.settings import CrossQSettings
from interreplay.learning.update import Update
from interreplay.rllib.algorithms.module import OffPolicyModule
from interreplay.rllib.algorithms.off_policy import OffPolicy
from interreplay.rllib.algorithms.soft import SoftConfig


class CrossQModule(OffPolicyModule):
    """Actor, critics and temperature, with running statistics of batch renormalization."""

    @override(OffPolicyModule)
    def make_networks(self, inputs: int, actions: int) -> nn.Module:
        names = ("hiddens", "initial_alpha", "critic_hiddens", "warm_up")
        given = {name: self.model_config[name] for name in names}
        return CrossQNetworks(inputs, actions, **given, inference_only=self.inference_only)


class CrossQConfig(SoftConfig):
    """CrossQ with the networks and defaults of the paper (arXiv:1902.05605); `CrossQSettings` has what is its own.

    Its critics are 2048 wide: an update takes some forty times as long as SAC's on a processor. With
    ``critic_hiddens=(512, 512)`` it takes about three times as long, and 1.4 times with ``(256, 256)``.

    ```python
    config = CrossQConfig().environment("HalfCheetah-v5").replay("NMER", capacity=1_000_000, k=10)
    ```
    """

    settings_class = CrossQSettings
    module_class = CrossQModule

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or CrossQ)

    @override(SoftConfig)
    def make_update(self, module: RLModule) -> Update:
        return CrossQUpdate(module.nets, policy_delay=self.policy_delay, **self.soft_settings(module))

    @property
    @override(SoftConfig)
    def layers(self) -> str:
        return f"{super().layers}, critics {list(critic_widths(self.hiddens, self.critic_hiddens))}"

    @property
    @override(SoftConfig)
    def _model_config_auto_includes(self) -> dict[str, Any]:
        own = {"critic_hiddens": critic_widths(self.hiddens, self.critic_hiddens), "warm_up": self.renorm_warm_up}
        return super()._model_config_auto_includes | own


class CrossQ(OffPolicy):
    """CrossQ on the fast path."""

    config_class = CrossQConfig
