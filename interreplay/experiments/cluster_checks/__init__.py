"""Checks of a cluster's node for known problems of runs."""
