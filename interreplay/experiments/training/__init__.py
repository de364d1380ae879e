"""Training of one run: building the algorithm, the loop, results and trackers."""

from interreplay.environments.rendering import choose_backend

choose_backend()  # before RLlib imports dm_control, which warns that there is no display
