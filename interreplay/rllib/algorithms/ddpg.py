"""DDPG: its configuration, its RLModule, its Learner, its Algorithm."""

from __future__ import annotations

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.rllib.utils.annotations import override

from interreplay.learning.ddpg import DDPGUpdate, PlainDDPGUpdate
from interreplay.learning.exploration import OrnsteinUhlenbeck
from interreplay.learning.update import Update
from interreplay.rllib.algorithms.deterministic import DeterministicConfig, DeterministicModule
from interreplay.rllib.algorithms.learner import OffPolicyLearner
from interreplay.rllib.algorithms.off_policy import OffPolicy


class DDPGConfig(DeterministicConfig):
    """Deep deterministic policy gradient with the defaults of the paper (arXiv:1509.02971).

    Other than there, actions enter the critic at its first layer, observations are not normalised, and the first steps
    are uniformly random.

    ```python
    config = DDPGConfig().environment("HalfCheetah-v5").replay("NMER", capacity=1_000_000, k=10)
    ```
    """

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or DDPG)
        self.hiddens = (400, 300)
        self.actor_lr = 1e-4
        self.critic_lr = 1e-3
        self.critic_l2 = 1e-2
        self.tau = 0.001
        self.train_batch_size_per_learner = 64
        self.exploration = OrnsteinUhlenbeck()

    @override(AlgorithmConfig)
    def get_default_rl_module_spec(self) -> RLModuleSpec:
        return RLModuleSpec(module_class=DDPGModule)

    @override(AlgorithmConfig)
    def get_default_learner_class(self) -> type:
        return DDPGLearner


class DDPGModule(DeterministicModule):
    """One critic; last layers start small, so that first actions and values are near zero."""

    critics = 1
    last_bound = 3e-3


class DDPGLearner(OffPolicyLearner):
    """Learns a `DDPGModule`."""

    @override(OffPolicyLearner)
    def make_update(self, module: RLModule) -> Update:
        kind = DDPGUpdate if self.config.fast_updates else PlainDDPGUpdate
        return kind(module.nets, **self.config.update_settings())


class DDPG(OffPolicy):
    """Deep deterministic policy gradient on the fast path."""

    @classmethod
    @override(OffPolicy)
    def get_default_config(cls) -> DDPGConfig:
        return DDPGConfig()
