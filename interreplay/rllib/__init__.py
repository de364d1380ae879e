"""interreplay in Ray RLlib: algorithms that replay transitions or unrolls, and a replay buffer for RLlib's own ones."""

# ruff: noqa: E402, I001
from interreplay.environments.own_modules import search_last
from interreplay.environments.rendering import choose_backend
from interreplay.environments.imports import pause_garbage_collection

search_last()  # before a worker of Ray imports a module that is also in the current folder
choose_backend()  # before RLlib imports dm_control

with pause_garbage_collection():
    from interreplay.rllib.host import warn_if_untested

    warn_if_untested()

    from interreplay.rllib.actor_learner.a3c import A3C, A3CConfig
    from interreplay.rllib.actor_learner.impala import A2C, A2CConfig, CLEAR, CLEARConfig, IMPALA, IMPALAConfig
    from interreplay.rllib.actor_learner.impala import LASER, LASERConfig
    from interreplay.rllib.algorithms.dqn import C51, C51Config, DDQN, DDQNConfig, DQN, DQNConfig
    from interreplay.rllib.algorithms.dqn import DuelingDQN, DuelingDQNConfig, IQN, IQNConfig, NoisyDQN, NoisyDQNConfig
    from interreplay.rllib.algorithms.dqn import QRDQN, QRDQNConfig, Rainbow, RainbowConfig
    from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm
    from interreplay.rllib.algorithms.sac import SAC, SACConfig, TQC, TQCConfig, CrossQ, CrossQConfig
    from interreplay.rllib.algorithms.td3 import DDPG, DDPGConfig, TD3, TD3Config
    from interreplay.rllib.stock.buffer import ReplayBuffer
    from interreplay.rllib.stock.configs import BufferCheckpoints, ReplayMixin
    from interreplay.rllib.stock.configs import StockDQNConfig, StockSACConfig, StockTQCConfig

__all__ = [
    "A2C",
    "A2CConfig",
    "A3C",
    "A3CConfig",
    "BufferCheckpoints",
    "C51",
    "C51Config",
    "CLEAR",
    "CLEARConfig",
    "CrossQ",
    "CrossQConfig",
    "DDPG",
    "DDPGConfig",
    "DDQN",
    "DDQNConfig",
    "DQN",
    "DQNConfig",
    "DuelingDQN",
    "DuelingDQNConfig",
    "IMPALA",
    "IMPALAConfig",
    "IQN",
    "IQNConfig",
    "LASER",
    "LASERConfig",
    "NoisyDQN",
    "NoisyDQNConfig",
    "OffPolicyAlgorithm",
    "QRDQN",
    "QRDQNConfig",
    "Rainbow",
    "RainbowConfig",
    "ReplayBuffer",
    "ReplayMixin",
    "SAC",
    "SACConfig",
    "StockDQNConfig",
    "StockSACConfig",
    "StockTQCConfig",
    "TD3",
    "TD3Config",
    "TQC",
    "TQCConfig",
]
