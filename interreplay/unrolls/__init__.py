"""Unrolls: what actors and learners replay. `unrolls` is the currency, the rest stores it and mixes it."""
