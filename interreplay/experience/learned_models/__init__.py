"""Learned dynamics: ensembles that predict the outcome of a step, their fits, and rollouts in them."""
