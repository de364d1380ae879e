"""IMPALA, CLEAR, LASER and A2C: their configurations and Algorithms."""

from __future__ import annotations

from interreplay.rllib.actor_learner.algorithm import ActorLearner, ActorLearnerConfig
from interreplay.rllib.algorithms.variants import variant


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


class IMPALA(ActorLearner):
    """Importance-weighted actor-learner architecture, configured by `IMPALAConfig`."""

    config_class = IMPALAConfig


CLEARConfig, CLEAR = variant(
    "CLEAR",
    IMPALAConfig,
    IMPALA,
    "IMPALA with CLEAR's cloning losses on replayed unrolls, half of each batch (arXiv:1811.11682).",
)
LASERConfig, LASER = variant(
    "LASER",
    IMPALAConfig,
    IMPALA,
    """IMPALA with LASER's choice of replayed steps, three quarters of each batch (arXiv:1909.11583).

Actions in a Box need ``relevance_of="behavior"``: the implied policy of normal distributions has no closed form.""",
)
A2CConfig, A2C = variant(
    "A2C",
    IMPALAConfig,
    IMPALA,
    "Synchronous advantage actor-critic: IMPALA's update of short unrolls, without ratios and without replay.",
)
