"""Layout: the columns of the stored rows, fixed by the first ones that are added."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from interreplay.transitions import Transitions, join_parts, observation_parts

Columns = dict[str, tuple[tuple[int, ...], torch.dtype]]
"""``{name: (shape of one row, dtype)}``."""

DERIVED = ("next_obs", "discounts", "episode", "link")
"""Columns of transitions, or of the records, that are not copied as they come."""


def columns_of(transitions: Transitions) -> Columns:
    """What a row of these transitions is made of, in the order in which it should lie in memory."""
    given = {name: (tuple(c.shape[1:]), c.dtype) for name, c in stored_columns(transitions).items()}
    return {"episode": ((), torch.int64)} | given | {"link": ((), torch.int32)}


def stored_columns(transitions: Transitions) -> dict[str, Tensor]:
    """The columns that are stored as they come; s and a side by side."""
    return {name: c for name, c in transitions.columns().items() if not name.startswith(DERIVED)}


def observation_columns(columns: Columns) -> Columns:
    """The parts of an observation, as in `columns_of`."""
    return {name: spec for name, spec in columns.items() if is_observation(name)}


def is_observation(name: str) -> bool:
    return name == "obs" or name.startswith("obs.")


def features(columns: Columns) -> int:
    """Numbers in z = [s; a] of a row."""
    return sum(math.prod(shape) for name, (shape, _) in columns.items() if is_observation(name) or name == "actions")


def fit(transitions: Transitions, columns: Columns) -> Transitions:
    """The same transitions in the stored dtypes.

    Raises:
        ValueError: When a column is missing or too many, or has another shape, or a dtype that does not
            convert without losing its kind, such as float to uint8.
    """
    given = columns_of(transitions)
    if given == columns and _next_dtypes(transitions) == _obs_dtypes(columns):
        return transitions
    if set(given) != set(columns):
        raise ValueError(f"transitions have the columns {sorted(set(given) - set(DERIVED))}; stored are {sorted(set(columns) - set(DERIVED))}")
    for name, (shape, dtype) in given.items():
        if shape != columns[name][0]:
            raise ValueError(f"{name} has shape {shape} per row; stored rows have {columns[name][0]}")
        if not torch.can_cast(dtype, columns[name][1]):
            raise ValueError(f"{name} is {dtype}; stored rows are {columns[name][1]}")
    return _cast(transitions, columns)


def _next_dtypes(transitions: Transitions) -> dict[str, Any]:
    return {name: (tuple(p.shape[1:]), p.dtype) for name, p in observation_parts(transitions.next_obs).items()}


def _obs_dtypes(columns: Columns) -> dict[str, Any]:
    return {name[4:]: spec for name, spec in observation_columns(columns).items()}


def _cast(transitions: Transitions, columns: Columns) -> Transitions:
    def observation(value: Any) -> Any:
        parts = observation_parts(value)
        if set(parts) != set(_obs_dtypes(columns)):
            raise ValueError(f"next_obs has the parts {sorted(parts)}; obs has {sorted(_obs_dtypes(columns))}")
        for name, part in parts.items():
            if tuple(part.shape[1:]) != _obs_dtypes(columns)[name][0]:
                raise ValueError(f"next_obs has shape {tuple(part.shape[1:])} per row; stored rows have {_obs_dtypes(columns)[name][0]}")
        return join_parts({name: part.to(_obs_dtypes(columns)[name][1]) for name, part in parts.items()})

    return transitions.replace(
        obs=observation(transitions.obs),
        next_obs=observation(transitions.next_obs),
        actions=transitions.actions.to(columns["actions"][1]),
        rewards=transitions.rewards.to(columns["rewards"][1]),
        extras={name: value.to(columns[f"extras.{name}"][1]) for name, value in transitions.extras.items()},
    )
