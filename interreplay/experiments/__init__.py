"""Experiments: commands, flags, training, evaluation, studies and reports around the learning core."""
