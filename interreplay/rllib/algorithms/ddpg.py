"""DDPG: its RLModule, its configuration, its Algorithm."""

from __future__ import annotations

from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.annotations import override

from interreplay.learning.ddpg import DDPGUpdate, PlainDDPGUpdate
from interreplay.learning.settings import DDPGSettings
from interreplay.learning.update import Update
from interreplay.rllib.algorithms.deterministic import DeterministicConfig, DeterministicModule
from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm


class DDPGModule(DeterministicModule):
    """Actor, critics, and targets of both; last layers start small, so that first actions and values are near zero."""

    n_critics = DDPGSettings.n_critics
    last_bound = 3e-3


class DDPGConfig(DeterministicConfig):
    """Deep deterministic policy gradient with the defaults of the paper (arXiv:1509.02971).

    Other than there, actions enter the critic at its first layer, observations are not normalized, and the first steps
    are uniformly random. `DDPGSettings` has what is its own.

    ```python
    config = DDPGConfig().environment("HalfCheetah-v5").replay("NMER", capacity=1_000_000, k=10)
    ```
    """

    settings_class = DDPGSettings
    module_class = DDPGModule

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or DDPG)

    @override(DeterministicConfig)
    def make_update(self, module: RLModule) -> Update:
        kind = DDPGUpdate if self.fast_updates else PlainDDPGUpdate
        return kind(module.nets, **self.update_settings())


class DDPG(OffPolicyAlgorithm):
    """Deep deterministic policy gradient on the fast path."""

    config_class = DDPGConfig
