"""Storage of unrolls."""
