"""Unrolls: sequences of steps, fresh or replayed, and how they are mixed."""
