"""How much memory a replay buffer will take."""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium as gym
import numpy as np
import torch

from interreplay.environments.spaces import leaves
from interreplay.experience.source import RowSource
from interreplay.storage.columns import Columns, column_of
from interreplay.transitions import join_parts
from interreplay.unrolls.mixture import UnrollMix
from interreplay.unrolls.unrolls import Unrolls


def columns_of_spaces(observation_space: gym.Space, action_space: gym.Space) -> Columns:
    """Return what a stored row of an environment is made of; float64 is kept as float32.

    Args:
        observation_space: Of one environment; a Dict or Tuple gives one column per part.
        action_space: Of one environment.

    Raises:
        ValueError: When a space has no fixed shape.
    """
    columns = {column_of(name): _column(space) for name, space in leaves(observation_space).items()}
    flags = {"terminated": ((), torch.bool), "truncated": ((), torch.bool)}
    return (
        {"episode": ((), torch.int64)}
        | columns
        | {"actions": _column(action_space), "rewards": ((), torch.float32)}
        | flags
        | {"link": ((), torch.int32)}
    )


def _column(space: gym.Space) -> tuple[tuple[int, ...], torch.dtype]:
    if space.shape is None or space.dtype is None:
        raise ValueError(f"{space} has no fixed shape; expected Box, Discrete, MultiDiscrete or a Dict of these")
    dtype = np.float32 if space.dtype == np.float64 else space.dtype
    return tuple(space.shape), torch.from_numpy(np.zeros(1, dtype)).dtype


def estimate(
    observation_space: gym.Space, action_space: gym.Space, buffer: RowSource, stacks: Sequence[str] = ()
) -> int:
    """Return bytes that `buffer` will take when it is full of rows of an environment.

    Args:
        observation_space: Of one environment.
        action_space: Of one environment.
        buffer: Still empty.
        stacks: Parts of observations that are stacks of frames, each of which is kept once.
    """
    columns = columns_of_spaces(observation_space, action_space)
    for name in map(column_of, stacks):
        (count, *frame), dtype = columns[name]
        columns |= {name: (tuple(frame), dtype), f"{name} numbers": ((count,), torch.int32)}
    if "behavior" in buffer.columns_wanted:  # rows tell what the policy gave: mean and log std of each action
        columns["extras.behavior"] = ((2 * gym.spaces.flatdim(action_space),), torch.float32)
    if "success" in buffer.columns_wanted:
        columns["extras.success"] = ((), torch.bool)
    return buffer.nbytes(columns)


def estimate_unrolls(observation_space: gym.Space, action_space: gym.Space, mix: UnrollMix, steps: int) -> int:
    """Return bytes that a mix of unrolls will take when it is full.

    Args:
        observation_space: Of one environment.
        action_space: Of one environment.
        mix: Still empty.
        steps: T, of an unroll.
    """
    kinds = columns_of_spaces(observation_space, action_space)

    def zeros(name: str, count: int) -> torch.Tensor:
        shape, dtype = kinds[name]
        return torch.zeros((count, 1, *shape), dtype=dtype)

    obs = {part: zeros(column_of(part), steps + 1) for part in leaves(observation_space)}
    numbers = gym.spaces.flatdim(action_space) * (1 if isinstance(action_space, gym.spaces.Discrete) else 2)
    one = torch.zeros(steps, 1)
    return mix.estimate(
        Unrolls(join_parts(obs), zeros("actions", steps), one, one.bool(), torch.zeros(steps, 1, numbers), one)
    )
