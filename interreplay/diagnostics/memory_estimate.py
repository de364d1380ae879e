"""Estimates of the memory of replay buffers and networks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import torch

from interreplay.environments.spaces import columns_from_spaces, leaves
from interreplay.experience.source import RowSource
from interreplay.learning.architectures import Architecture, build_encoder, resolve_model
from interreplay.storage.columns import get_column_name
from interreplay.transitions import join_parts
from interreplay.unrolls.mixture import UnrollMix
from interreplay.unrolls.unrolls import Unrolls


def estimate(
    observation_space: gym.Space, action_space: gym.Space, buffer: RowSource, stacks: Sequence[str] = ()
) -> int:
    """Return the memory in bytes of a full buffer for rows of an environment.

    The parts `stacks` of observations are stacks of frames; each frame is stored once.
    """
    columns = columns_from_spaces(observation_space, action_space)
    for name in map(get_column_name, stacks):
        (count, *frame), dtype = columns[name]
        columns |= {name: (tuple(frame), dtype), f"{name} numbers": ((count,), torch.int32)}
    if "behavior" in buffer.columns_wanted:  # mean and log std of each action
        columns["extras.behavior"] = ((2 * gym.spaces.flatdim(action_space),), torch.float32)
    if "success" in buffer.columns_wanted:
        columns["extras.success"] = ((), torch.bool)
    return buffer.nbytes(columns)


def network_bytes(
    architecture: Architecture, observation_space: gym.Space, action_space: gym.Space, model: Mapping[str, Any]
) -> tuple[float, float]:
    """Return the number of parameters of an algorithm's networks and the memory in bytes for training them.

    The networks are created without memory. A trained parameter takes four numbers: its value, its gradient and two
    moments of Adam.
    """
    with torch.random.fork_rng(devices=[]):
        model = resolve_model(architecture, observation_space, model)
        encoder, inputs = build_encoder(observation_space, model)
        try:
            with torch.device("meta"):
                networks = architecture.make(inputs, action_space, model, inference_only=False)
        except NotImplementedError:
            raise
        except RuntimeError:  # the number of parameters exceeds 64 bits
            return math.inf, math.inf
    parameters = [*encoder.parameters(), *networks.parameters()]
    count = sum(map(torch.numel, parameters))
    trained = sum(values.numel() for values in parameters if values.requires_grad)
    return count, 4 * (count + 3 * trained)


def estimate_unrolls(observation_space: gym.Space, action_space: gym.Space, mix: UnrollMix, steps: int) -> int:
    """Return the memory in bytes of a full mix of unrolls of `steps` steps."""
    kinds = columns_from_spaces(observation_space, action_space)

    def zeros(name: str, count: int) -> torch.Tensor:
        shape, dtype = kinds[name]
        return torch.zeros((count, 1, *shape), dtype=dtype)

    obs = {part: zeros(get_column_name(part), steps + 1) for part in leaves(observation_space)}
    outputs = gym.spaces.flatdim(action_space)
    if not isinstance(action_space, gym.spaces.Discrete):
        outputs *= 2  # mean and log std
    one = torch.zeros(steps, 1)
    unrolls = Unrolls(
        obs=join_parts(obs),
        actions=zeros("actions", steps),
        rewards=one,
        terminated=one.bool(),
        policy=torch.zeros(steps, 1, outputs),
        values=one,
    )
    return mix.estimate(unrolls)
