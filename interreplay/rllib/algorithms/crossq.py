"""CrossQ: its RLModule, its configuration, its Algorithm."""

from __future__ import annotations

from ray.rllib.utils.annotations import override

from interreplay.learning.actor_critic.crossq import CrossQUpdate, critic_widths
from interreplay.learning.architectures import ARCHITECTURES
from interreplay.learning.settings import CrossQSettings
from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm
from interreplay.rllib.algorithms.sac import SACConfig, SACModule


class CrossQModule(SACModule):
    """Actor, critics and temperature, with running statistics of batch renormalization."""

    architecture = ARCHITECTURES["CrossQ"]


class CrossQConfig(SACConfig):
    """CrossQ with the networks and defaults of the paper (arXiv:1902.05605); `CrossQSettings` has what is its own.

    Its critics are 2048 wide: an update takes some thirty times as long as SAC's on a processor. With
    ``critic_hiddens=(512, 512)`` it takes about three times as long, and 1.4 times with ``(256, 256)``.

    ```python
    config = CrossQConfig().environment("HalfCheetah-v5").replay("NMER", capacity=1_000_000, k=10)
    ```
    """

    settings_class = CrossQSettings
    module_class = CrossQModule
    update_class = CrossQUpdate

    @property
    @override(SACConfig)
    def layers(self) -> str:
        widths = list(critic_widths(self.hiddens, self.critic_hiddens))
        return f"{super().layers}, {self.n_critics} critics of {widths}"


class CrossQ(OffPolicyAlgorithm):
    """CrossQ on the fast path."""

    config_class = CrossQConfig
