"""One run: from settings to an algorithm, and its loop with results on disk."""
