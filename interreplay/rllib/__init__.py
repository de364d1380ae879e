"""interreplay in Ray RLlib: fast off-policy algorithms, and a replay buffer for the stock ones."""

from interreplay.rllib.sac import SAC, SACConfig
from interreplay.rllib.stock import ReplayBuffer
from interreplay.rllib.stock_configs import ReplayMixin

__all__ = ["SAC", "ReplayBuffer", "ReplayMixin", "SACConfig"]
