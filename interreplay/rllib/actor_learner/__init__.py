"""Actors and a learner: algorithms that learn from unrolls of T steps, fresh and replayed."""
