"""Play trained policies: returns, videos, datasets."""

from interreplay.environments.rendering import choose_backend

choose_backend()  # before RLlib imports dm_control, which warns that there is no display
