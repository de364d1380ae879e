"""interreplay in Ray RLlib: fast off-policy algorithms, and a replay buffer for the stock ones."""

# ruff: noqa: E402, I001
from interreplay.environments.current_folder import search_last
from interreplay.environments.rendering import choose_backend

search_last()  # before a worker of Ray's imports something that the current folder has, too
choose_backend()  # before RLlib imports dm_control

from interreplay.rllib.checkpoints.moved import find_moved_modules

find_moved_modules()

from interreplay.rllib.algorithms.crossq import CrossQ, CrossQConfig
from interreplay.rllib.algorithms.ddpg import DDPG, DDPGConfig
from interreplay.rllib.algorithms.sac import SAC, SACConfig
from interreplay.rllib.stock.buffer import ReplayBuffer
from interreplay.rllib.stock.configs import ReplayMixin
from interreplay.rllib.algorithms.td3 import TD3, TD3Config
from interreplay.rllib.algorithms.tqc import TQC, TQCConfig

__all__ = [
    "DDPG",
    "SAC",
    "TD3",
    "TQC",
    "CrossQ",
    "CrossQConfig",
    "DDPGConfig",
    "ReplayBuffer",
    "ReplayMixin",
    "SACConfig",
    "TD3Config",
    "TQCConfig",
]
