"""Checkpoints: the complete state of a run in one folder, verified before it is loaded."""
