"""Read runs on disk: their folders, settings and results."""
