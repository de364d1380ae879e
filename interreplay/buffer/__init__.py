"""Replay buffers: the composition of parts, the batches they draw, and the catalog of methods by name."""

from interreplay.buffer.replay_buffer import ReplayBuffer
from interreplay.buffer.sample import Sample

__all__ = ["ReplayBuffer", "Sample"]
