"""TD3: its RLModule, its configuration, its Algorithm."""

from __future__ import annotations

from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.annotations import override

from interreplay.learning.settings import TD3Settings
from interreplay.learning.td3 import PlainTD3Update, TD3Update
from interreplay.learning.update import Update
from interreplay.rllib.algorithms.deterministic import DeterministicConfig, DeterministicModule
from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm


class TD3Module(DeterministicModule):
    """Actor, critics, and targets of both."""

    n_critics = TD3Settings.n_critics


class TD3Config(DeterministicConfig):
    """Twin delayed DDPG with the defaults of its authors' published code (arXiv:1802.09477).

    `TD3Settings` has what is its own.

    ```python
    config = TD3Config().environment("HalfCheetah-v5").replay("NMER", capacity=1_000_000, k=10)
    ```
    """

    settings_class = TD3Settings
    module_class = TD3Module

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or TD3)

    @override(DeterministicConfig)
    def make_update(self, module: RLModule) -> Update:
        kind = TD3Update if self.fast_updates else PlainTD3Update
        return kind(module.nets, **self.update_settings())


class TD3(OffPolicyAlgorithm):
    """Twin delayed deep deterministic policy gradient on the fast path."""

    config_class = TD3Config
