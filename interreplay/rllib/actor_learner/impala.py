"""IMPALA, CLEAR, LASER and A2C: their configurations and Algorithms."""

from __future__ import annotations

from interreplay.learning.policy_gradient.unroll_settings import (
    A2CSettings,
    CLEARSettings,
    IMPALASettings,
    LASERSettings,
)
from interreplay.rllib.actor_learner.algorithm import ActorLearner, ActorLearnerConfig


class IMPALAConfig(ActorLearnerConfig):
    """V-trace on fresh and replayed unrolls, with the defaults of the paper (arXiv:1802.01561).

    Examples:
        >>> from interreplay.rllib import IMPALAConfig
        >>> config = IMPALAConfig().environment("CartPole-v1")
        >>> config = config.training(lr=1e-3, steps_per_iteration=1_000)
        >>> algorithm = config.build_algo()
        >>> result = algorithm.train()
        >>> algorithm.env_steps >= 1_000
        True
        >>> algorithm.stop()
    """

    settings_class = IMPALASettings
    trainer = "IMPALA"


class IMPALA(ActorLearner):
    """IMPALA."""

    config_class = IMPALAConfig


class CLEARConfig(IMPALAConfig):
    """IMPALA with CLEAR's cloning losses on replayed unrolls, half of each batch (arXiv:1811.11682).

    Examples:
        >>> from interreplay.rllib import CLEARConfig
        >>> config = CLEARConfig().environment("CartPole-v1")
        >>> config = config.training(lr=1e-3, steps_per_iteration=1_000)
        >>> algorithm = config.build_algo()
        >>> result = algorithm.train()
        >>> algorithm.env_steps >= 1_000
        True
        >>> algorithm.stop()
    """

    settings_class = CLEARSettings
    trainer = "CLEAR"


class CLEAR(IMPALA):
    """CLEAR."""

    config_class = CLEARConfig


class LASERConfig(IMPALAConfig):
    """IMPALA with LASER's choice of replayed steps, three quarters of each batch (arXiv:1909.11583).

    Actions in a Box need ``relevance_of="behavior"``: the implied policy of normal distributions has no closed form.

    Examples:
        >>> from interreplay.rllib import LASERConfig
        >>> config = LASERConfig().environment("CartPole-v1")
        >>> config = config.training(lr=1e-3, steps_per_iteration=1_000)
        >>> algorithm = config.build_algo()
        >>> result = algorithm.train()
        >>> algorithm.env_steps >= 1_000
        True
        >>> algorithm.stop()
    """

    settings_class = LASERSettings
    trainer = "LASER"


class LASER(IMPALA):
    """LASER."""

    config_class = LASERConfig


class A2CConfig(ActorLearnerConfig):
    """Synchronous advantage actor-critic: IMPALA's update of short unrolls, without ratios and without replay.

    Examples:
        >>> from interreplay.rllib import A2CConfig
        >>> config = A2CConfig().environment("CartPole-v1")
        >>> config = config.training(lr=1e-3, steps_per_iteration=1_000)
        >>> algorithm = config.build_algo()
        >>> result = algorithm.train()
        >>> algorithm.env_steps >= 1_000
        True
        >>> algorithm.stop()
    """

    settings_class = A2CSettings
    trainer = "A2C"


class A2C(ActorLearner):
    """A2C."""

    config_class = A2CConfig
