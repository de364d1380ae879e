"""The command `rllib`: runs our algorithms and RLlib's own, from flags or files."""
