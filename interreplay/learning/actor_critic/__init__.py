"""Algorithms with a policy and critics: SAC, TQC, CrossQ, TD3 and DDPG."""
