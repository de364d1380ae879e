"""The replay buffer: its parts put together, the batches that it draws, and the names that it goes by."""

from interreplay.buffer.replay_buffer import ReplayBuffer
from interreplay.buffer.sample import Sample

__all__ = ["ReplayBuffer", "Sample"]
