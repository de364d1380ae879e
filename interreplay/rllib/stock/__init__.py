"""Our buffers inside RLlib's own algorithms."""

from interreplay.rllib.stock.buffer import ReplayBuffer

__all__ = ["ReplayBuffer"]
