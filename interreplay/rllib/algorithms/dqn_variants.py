"""DQN by the names of its variants: each sets defaults of `DQNConfig`, nothing else."""

from __future__ import annotations

from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.learning.value.value_settings import (
    C51Settings,
    DDQNSettings,
    DuelingDQNSettings,
    NoisyDQNSettings,
    QRDQNSettings,
    RainbowSettings,
)
from interreplay.rllib.algorithms.dqn import DQN, DQNConfig


class DDQNConfig(DQNConfig):
    """Double DQN (arXiv:1509.06461)."""

    settings_class = DDQNSettings


class DDQN(DQN):
    """Double DQN."""

    config_class = DDQNConfig


class DuelingDQNConfig(DQNConfig):
    """Dueling networks, learned as double DQN (arXiv:1511.06581)."""

    settings_class = DuelingDQNSettings


class DuelingDQN(DQN):
    """Dueling networks."""

    config_class = DuelingDQNConfig


class NoisyDQNConfig(DQNConfig):
    """DQN that explores by noisy layers (arXiv:1706.10295)."""

    settings_class = NoisyDQNSettings


class NoisyDQN(DQN):
    """DQN with noisy layers."""

    config_class = NoisyDQNConfig


class C51Config(DQNConfig):
    """A categorical distribution of returns (arXiv:1707.06887)."""

    settings_class = C51Settings


class C51(DQN):
    """A categorical distribution of returns."""

    config_class = C51Config


class QRDQNConfig(DQNConfig):
    """Quantile regression (arXiv:1710.10044)."""

    settings_class = QRDQNSettings


class QRDQN(DQN):
    """Quantile regression."""

    config_class = QRDQNConfig


class RainbowConfig(DQNConfig):
    """Double, dueling, noisy, categorical, 3 steps, and prioritized replay with α .5 (arXiv:1710.02298)."""

    settings_class = RainbowSettings

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class)
        row = ALGORITHMS["Rainbow"]
        self.replay_buffer_config = {"type": row.buffer, **row.buffer_args}


class Rainbow(DQN):
    """All of it together."""

    config_class = RainbowConfig
