"""Experience stores: transitions in a folder of column files, kept after a run ends or its process is killed."""

from interreplay.experience.store.reader import ExperienceStore
from interreplay.experience.store.writer import StoreWriter

__all__ = ["ExperienceStore", "StoreWriter"]
