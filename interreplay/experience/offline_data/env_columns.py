"""Columns of the stored rows of an environment."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch

from interreplay.environments.spaces import flat_actions, leaves
from interreplay.storage.columns import Columns, column_of


def columns_of_spaces(observation_space: gym.Space, action_space: gym.Space) -> Columns:
    """Return the columns of the stored rows of an environment; float64 is stored as float32.

    Args:
        observation_space: Space of one observation; each part of a Dict or Tuple is one column.
        action_space: Space of one action; a Dict or Tuple of Boxes is one column.

    Raises:
        ValueError: A space has no fixed shape.
    """
    columns = {column_of(name): _column(space) for name, space in leaves(observation_space).items()}
    flat = flat_actions(action_space)
    shape, dtype = _column(flat)
    if isinstance(flat, gym.spaces.Box):  # stored in [−1, 1]
        dtype = torch.float32
    flags = {"terminated": ((), torch.bool), "truncated": ((), torch.bool)}
    return (
        {"episode": ((), torch.int64)}
        | columns
        | {"actions": (shape, dtype), "rewards": ((), torch.float32)}
        | flags
        | {"link": ((), torch.int32)}
    )


def _column(space: gym.Space) -> tuple[tuple[int, ...], torch.dtype]:
    if space.shape is None or space.dtype is None:
        raise ValueError(f"{space} has no fixed shape; expected Box, Discrete, MultiDiscrete or a Dict of these")
    dtype = np.float32 if space.dtype == np.float64 else space.dtype
    return tuple(space.shape), torch.from_numpy(np.zeros(1, dtype)).dtype
