"""States as files: arrays and plain values in a folder that appears completely or not at all, with checksums."""

from interreplay.runs.state_files.arrays import ARRAYS, MANIFEST, STATE, load, resolve, save, write_atomically

__all__ = ["ARRAYS", "MANIFEST", "STATE", "load", "resolve", "save", "write_atomically"]
