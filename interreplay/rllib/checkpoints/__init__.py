"""Checkpoints: everything of a run in one folder, checked before it is loaded."""

from interreplay.rllib.checkpoints.algorithm import CheckpointedAlgorithm

__all__ = ["CheckpointedAlgorithm"]
