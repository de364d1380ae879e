"""What is known of batches, blends and memory."""

from interreplay.diagnostics.batch_statistics import Diagnostics

__all__ = ["Diagnostics"]
