"""States as files: arrays and plain values in a folder that appears whole or not at all, and their checksums."""

from interreplay.runs.state_files.arrays import MANIFEST, load, resolve, save, write_atomically

__all__ = ["MANIFEST", "load", "resolve", "save", "write_atomically"]
