"""Where things lie in vectors [s; a; r; s'], as a read view gives them, and transitions from such vectors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from interreplay.storage.columns import Columns, choice_columns, num_features, observation_columns, part_of
from interreplay.transitions import Transitions, join_parts, unchecked

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage


def feature_vectors(storage: Storage, slots: np.ndarray) -> np.ndarray:
    """Return z = [s; a] of the rows in `slots` ``(n,)``: float32 ``(n, d)``."""
    return storage.features(torch.from_numpy(slots).to(storage.device)).numpy(force=True)


def lead(columns: Columns) -> int:
    """Return numbers before z in a transition vector: those of an achieved goal, which is in s but not in z."""
    return action_range(columns).stop - num_features(columns)


def choice_places(columns: Columns) -> list[int]:
    """Return where the choices of s, a and s' lie in a transition vector, in ascending order."""
    observed = list(observation_columns(columns))
    places: list[int] = []
    at = 0
    for name in (*observed, "actions", "rewards", *observed):
        after = at + math.prod(columns[name][0])
        if name in choice_columns(columns):
            places += range(at, after)
        at = after
    return places


def action_range(columns: Columns) -> slice:
    """Return where the action lies in a transition vector."""
    start = sum(math.prod(shape) for shape, _ in observation_columns(columns).values())
    return slice(start, start + math.prod(columns["actions"][0]))


def length(columns: Columns) -> int:
    """Return numbers D in a transition vector."""
    actions = action_range(columns)
    return 2 * actions.start + (actions.stop - actions.start) + 1


def as_transitions(vectors: Tensor, columns: Columns) -> Transitions:
    """Return transitions ``(n, ...)`` in the stored shapes and dtypes from vectors ``(n, D)``, of which none ends."""
    at = 0

    def take(name: str) -> Tensor:
        nonlocal at
        shape, dtype = columns[name]
        part = vectors[:, at : at + math.prod(shape)]
        at += math.prod(shape)
        return (part if dtype.is_floating_point else part.round()).to(dtype).reshape(len(vectors), *shape)

    observed = list(observation_columns(columns))
    obs = join_parts({part_of(name): take(name) for name in observed})
    actions, rewards = take("actions"), take("rewards")
    next_obs = join_parts({part_of(name): take(name) for name in observed})
    never = torch.zeros(len(vectors), dtype=torch.bool, device=vectors.device)
    return unchecked(
        obs=obs, actions=actions, rewards=rewards, next_obs=next_obs, terminated=never, truncated=never.clone()
    )
