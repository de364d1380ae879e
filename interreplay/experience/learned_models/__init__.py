"""Learned dynamics: ensembles that predict the outcome of a step, how they are fitted, and rollouts in them."""
