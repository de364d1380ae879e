"""SAC, TQC and CrossQ: their configurations and Algorithms."""

from __future__ import annotations

from typing import Any, ClassVar

from ray.rllib.utils.annotations import override

from interreplay.errors import UsageError
from interreplay.learning.actor_critic.crossq import CrossQUpdate
from interreplay.learning.actor_critic.discrete_sac import DiscreteSACUpdate
from interreplay.learning.actor_critic.sac import SACUpdate
from interreplay.learning.actor_critic.tqc import TQCUpdate
from interreplay.learning.settings import CrossQSettings, SACSettings, TQCSettings
from interreplay.learning.update import Update
from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm, OffPolicyConfig
from interreplay.rllib.algorithms.signatures import CrossQTraining, SACTraining, TQCTraining


class SACConfig(SACTraining, OffPolicyConfig):
    """Soft actor-critic with the networks and defaults of the paper (arXiv:1812.05905).

    Discrete actions are learned as in Christodoulou 2019 (arXiv:1910.07207). See `SACSettings` for the settings.

    Examples:
        >>> from interreplay.rllib import SACConfig
        >>> config = SACConfig().environment("Pendulum-v1").replay("NMER", capacity=10_000, k=10)
        >>> config = config.training(num_steps_sampled_before_learning_starts=300, steps_per_iteration=320)
        >>> algorithm = config.build_algo()
        >>> result = algorithm.train()
        >>> algorithm.env_steps
        320
        >>> algorithm.stop()
    """

    settings_class: ClassVar[type] = SACSettings
    trainer = "SAC"
    update_class: ClassVar[Any] = SACUpdate

    n_critics: int

    @override(OffPolicyConfig)
    def make_update(self, module: Any) -> Update:
        kind = self.update_class
        discrete = module.policy.discrete
        if discrete and kind is SACUpdate:
            kind = DiscreteSACUpdate
        if discrete and issubclass(kind, SACUpdate):
            raise UsageError(
                f"{kind.__name__} derives from SACUpdate; expected DiscreteSACUpdate as base for Discrete actions"
            )
        if issubclass(kind, DiscreteSACUpdate) and not discrete:
            raise UsageError(
                f"{kind.__name__} derives from DiscreteSACUpdate; expected SACUpdate as base for actions of a Box"
            )
        return kind(module.nets, settings=self.update_settings())


class SAC(OffPolicyAlgorithm):
    """Soft actor-critic, configured by `SACConfig`."""

    config_class = SACConfig


class TQCConfig(TQCTraining, SACConfig):
    """Truncated quantile critics (arXiv:2005.04269); see `TQCSettings` for the settings.

    Examples:
        >>> from interreplay.rllib import TQCConfig
        >>> config = TQCConfig().environment("Pendulum-v1").replay("NMER", capacity=10_000, k=10)
        >>> config = config.training(num_steps_sampled_before_learning_starts=300, steps_per_iteration=320)
        >>> algorithm = config.build_algo()
        >>> result = algorithm.train()
        >>> algorithm.env_steps
        320
        >>> algorithm.stop()
    """

    settings_class = TQCSettings
    trainer = "TQC"
    update_class = TQCUpdate

    n_quantiles: int


class TQC(OffPolicyAlgorithm):
    """Truncated quantile critics, configured by `TQCConfig`."""

    config_class = TQCConfig


class CrossQConfig(CrossQTraining, SACConfig):
    """CrossQ with the networks and defaults of the paper (arXiv:1902.05605); see `CrossQSettings` for the settings.

    Its critics are 2048 wide: on a CPU, an update takes about 30 times as long as SAC's. With
    ``critic_hiddens=(512, 512)`` it takes about three times as long, with ``(256, 256)`` 1.4 times.

    Examples:
        >>> from interreplay.rllib import CrossQConfig
        >>> config = CrossQConfig().environment("Pendulum-v1").replay("NMER", capacity=10_000, k=10)
        >>> config = config.training(critic_hiddens=(256, 256), steps_per_iteration=1_010)
        >>> algorithm = config.build_algo()
        >>> result = algorithm.train()
        >>> algorithm.env_steps
        1010
        >>> algorithm.stop()
    """

    settings_class = CrossQSettings
    trainer = "CrossQ"
    update_class = CrossQUpdate

    critic_hiddens: Any


class CrossQ(OffPolicyAlgorithm):
    """CrossQ, configured by `CrossQConfig`."""

    config_class = CrossQConfig
