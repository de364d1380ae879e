"""A run on disk: its folder, lock, checkpoints, results and state files."""
