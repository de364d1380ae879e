"""Checkpoints in the folders of runs: which one is meant, and the best one."""
