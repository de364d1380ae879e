"""Layers, encoders, distributions and optimizers: the building blocks of all networks, written for speed."""
