"""Recorded experience: reading it from where it lies, and one mapped copy that concurrent runs share."""

from interreplay.experience.offline_data.store import open_rows

__all__ = ["open_rows"]
