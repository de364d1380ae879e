"""Runs on disk as they are read for a report: where they lie, what they were, and their results."""
