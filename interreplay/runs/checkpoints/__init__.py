"""Checkpoints in the folders of runs: search, and the best checkpoint."""
