"""The command `rllib`: any algorithm of RLlib, ours or its own, from flags or files."""
