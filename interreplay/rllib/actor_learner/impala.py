"""IMPALA and A2C by name: defaults of one algorithm, nothing else."""

from __future__ import annotations

from interreplay.learning.unroll_settings import A2CSettings, IMPALASettings
from interreplay.rllib.actor_learner.algorithm import ActorLearner
from interreplay.rllib.actor_learner.config import ActorLearnerConfig


class IMPALAConfig(ActorLearnerConfig):
    """V-trace on fresh and replayed unrolls, with the defaults of the paper (arXiv:1802.01561).

    ```python
    config = IMPALAConfig().environment("CartPole-v1").training(lr=1e-3, optimizer="Adam", optimizer_eps=1e-5)
    ```
    """

    settings_class = IMPALASettings
    trainer = "IMPALA"

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or IMPALA)


class IMPALA(ActorLearner):
    """IMPALA in one process."""

    config_class = IMPALAConfig


class A2CConfig(ActorLearnerConfig):
    """Advantage actor-critic, synchronous: IMPALA's update of short unrolls, without ratios and without replay."""

    settings_class = A2CSettings
    trainer = "A2C"

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or A2C)


class A2C(ActorLearner):
    """A2C in one process."""

    config_class = A2CConfig
