"""A run on disk and on this machine: its folder, resuming it, its progress, signals."""
