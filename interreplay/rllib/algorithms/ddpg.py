"""DDPG: its RLModule, its configuration, its Algorithm."""

from __future__ import annotations

from interreplay.learning.actor_critic.td3 import TD3Update
from interreplay.learning.architectures import ARCHITECTURES
from interreplay.learning.settings import DDPGSettings
from interreplay.rllib.algorithms.deterministic import DeterministicConfig
from interreplay.rllib.algorithms.module import OffPolicyModule
from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm


class DDPGModule(OffPolicyModule):
    """Actor, critics, and targets of both; last layers start small, so that first actions and values are near zero."""

    architecture = ARCHITECTURES["DDPG"]


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
    update_class = TD3Update


class DDPG(OffPolicyAlgorithm):
    """Deep deterministic policy gradient on the fast path."""

    config_class = DDPGConfig
