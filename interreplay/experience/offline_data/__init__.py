"""Recorded experience: readers of its formats, and memory-mapped copies that concurrent runs share."""

from interreplay.experience.offline_data.store import open_rows

__all__ = ["open_rows"]
