"""The layout of vectors [s; a; r; s'] that a read view returns, and transitions from such vectors."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from interreplay.storage.columns import Columns, discrete_columns, get_part_name, num_features, observation_columns
from interreplay.storage.ring import Storage
from interreplay.transitions import Transitions, join_parts, unchecked


def feature_vectors(storage: Storage, slots: np.ndarray) -> np.ndarray:
    """Return z = [s; a] of the rows in `slots` ``(n,)``, float32 ``(n, d)``."""
    return storage.features(torch.from_numpy(slots)).numpy()


def lead(columns: Columns) -> int:
    """Return the position of z in a vector: the size of the achieved goal, which is part of s but not of z."""
    return action_range(columns).stop - num_features(columns)


def discrete_places(columns: Columns) -> list[int]:
    """Return the positions of discrete values of s, a and s' in a vector, in ascending order."""
    observed = list(observation_columns(columns))
    discrete = discrete_columns(columns)
    places: list[int] = []
    start = 0
    for name in (*observed, "actions", "rewards", *observed):
        stop = start + math.prod(columns[name][0])
        if name in discrete:
            places += range(start, stop)
        start = stop
    return places


def action_range(columns: Columns) -> slice:
    """Return the position of the action in a vector."""
    start = sum(math.prod(shape) for shape, _ in observation_columns(columns).values())
    return slice(start, start + math.prod(columns["actions"][0]))


def length(columns: Columns) -> int:
    """Return the length D of a vector."""
    actions = action_range(columns)
    return actions.start + actions.stop + 1


def as_transitions(vectors: Tensor, columns: Columns) -> Transitions:
    """Return transitions ``(n, ...)`` in the stored shapes and dtypes from vectors ``(n, D)``; none terminates."""
    start = 0

    def take(name: str) -> Tensor:
        nonlocal start
        shape, dtype = columns[name]
        part = vectors[:, start : start + math.prod(shape)]
        start += math.prod(shape)
        if not dtype.is_floating_point:
            part = part.round()
        return part.to(dtype).reshape(len(vectors), *shape)

    observed = list(observation_columns(columns))
    never = torch.zeros(len(vectors), dtype=torch.bool)
    return unchecked(  # in the order of the vector
        obs=join_parts({get_part_name(name): take(name) for name in observed}),
        actions=take("actions"),
        rewards=take("rewards"),
        next_obs=join_parts({get_part_name(name): take(name) for name in observed}),
        terminated=never,
        truncated=never.clone(),
    )
