"""Checkpoints: everything of a run in one folder, checked before it is loaded."""

from interreplay.rllib.checkpoints.files import check_part, make, restore, save

__all__ = ["check_part", "make", "restore", "save"]
