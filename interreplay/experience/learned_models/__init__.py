"""Learned dynamics: ensembles that predict what a step leads to, how they are fitted, and rollouts of them."""
