"""Statistics of batches, blends and memory, and the contract of replay buffers."""

from interreplay.diagnostics.batch_statistics import Diagnostics

__all__ = ["Diagnostics"]
