"""Checkpoints: everything of a run in one folder, checked before it is loaded."""

from interreplay.rllib.checkpoints.files import restore, save

__all__ = ["restore", "save"]
