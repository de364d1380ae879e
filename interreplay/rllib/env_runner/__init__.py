"""Stepping environments: from actions to columns, here or in other processes."""
