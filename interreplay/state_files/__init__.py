"""States as files: arrays and plain values in a folder that appears whole or not at all, and their checksums."""

from interreplay.state_files.arrays import MANIFEST, copy_arrays, load, resolve, save, write_atomically

__all__ = ["MANIFEST", "copy_arrays", "load", "resolve", "save", "write_atomically"]
