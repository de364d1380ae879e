"""Replay buffers made of parts: select anchors, gather their neighbours, synthesise a batch, learn from it."""

from interreplay.buffer import ReplayBuffer, Sample
from interreplay.errors import CheckpointError, InterreplayError, NonFiniteError
from interreplay.storage import Storage
from interreplay.transitions import Transitions

__all__ = ["CheckpointError", "InterreplayError", "NonFiniteError", "ReplayBuffer", "Sample", "Storage", "Transitions"]
__version__ = "0.1.0"
