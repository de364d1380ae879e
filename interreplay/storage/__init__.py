"""Storage: the stored rows, their order, and how they are read."""

from interreplay.storage.ring import Storage

__all__ = ["Storage"]
