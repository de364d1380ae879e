"""Atari games: the emulator as an environment, its ids, and what a learner is given of a game."""
