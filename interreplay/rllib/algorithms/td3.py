"""TD3: its RLModule, its configuration, its Algorithm."""

from __future__ import annotations

from interreplay.learning.actor_critic.td3 import TD3Update
from interreplay.learning.architectures import ARCHITECTURES
from interreplay.learning.settings import TD3Settings
from interreplay.rllib.algorithms.deterministic import DeterministicConfig
from interreplay.rllib.algorithms.module import OffPolicyModule
from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm


class TD3Module(OffPolicyModule):
    """Actor, critics, and targets of both."""

    architecture = ARCHITECTURES["TD3"]


class TD3Config(DeterministicConfig):
    """Twin delayed DDPG with the defaults of its authors' published code (arXiv:1802.09477).

    `TD3Settings` has what is its own.

    ```python
    config = TD3Config().environment("HalfCheetah-v5").replay("NMER", capacity=1_000_000, k=10)
    ```
    """

    settings_class = TD3Settings
    module_class = TD3Module
    update_class = TD3Update


class TD3(OffPolicyAlgorithm):
    """Twin delayed deep deterministic policy gradient on the fast path."""

    config_class = TD3Config
