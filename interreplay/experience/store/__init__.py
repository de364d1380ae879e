"""Experience that outlives its run: transitions in a folder of column files, durable while they are written."""

from interreplay.experience.store.reader import ExperienceStore
from interreplay.experience.store.writer import StoreWriter

__all__ = ["ExperienceStore", "StoreWriter"]
