"""The command `rllib`: runs our algorithms and RLlib's own, from flags or files."""

from interreplay.environments.rendering import choose_backend

choose_backend()  # before RLlib imports dm_control, which warns that there is no display
