"""TQC: its RLModule, its configuration, its Algorithm."""

from __future__ import annotations

from ray.rllib.utils.annotations import override

from interreplay.learning.actor_critic.tqc import TQCUpdate
from interreplay.learning.architectures import ARCHITECTURES
from interreplay.learning.settings import TQCSettings
from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm
from interreplay.rllib.algorithms.sac import SACConfig, SACModule


class TQCModule(SACModule):
    """Actor, quantile critics, targets and temperature."""

    architecture = ARCHITECTURES["TQC"]


class TQCConfig(SACConfig):
    """Truncated quantile critics (arXiv:2005.04269); `TQCSettings` has what is its own.

    ```python
    config = TQCConfig().environment("HalfCheetah-v5").replay("NMER", capacity=1_000_000, k=10)
    ```
    """

    settings_class = TQCSettings
    module_class = TQCModule
    update_class = TQCUpdate

    @property
    @override(SACConfig)
    def layers(self) -> str:
        return f"{super().layers}, {self.n_critics} critics of {self.n_quantiles} quantiles"


class TQC(OffPolicyAlgorithm):
    """Truncated quantile critics on the fast path."""

    config_class = TQCConfig
