"""Atomic state files with checksums: nested containers of arrays and plain values in a folder."""

from interreplay.runs.state_files.arrays import ARRAYS, MANIFEST, STATE, load, resolve, save, write_atomically

__all__ = ["ARRAYS", "MANIFEST", "STATE", "load", "resolve", "save", "write_atomically"]
