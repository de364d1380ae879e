"""The columns of stored rows, which are fixed by the first rows."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import NonFiniteError
from interreplay.transitions import Observation, Transitions, join_parts, observation_parts

Columns = dict[str, tuple[tuple[int, ...], torch.dtype]]
"""``{name: (shape of one row, dtype)}``."""

Column = TypeVar("Column", Tensor, np.ndarray)

DERIVED = ("next_obs", "discounts", "episode", "link")
"""Columns of transitions or records that are not copied as they are."""


def get_columns(transitions: Transitions) -> Columns:
    """Return the columns of stored rows, in the order of their memory layout.

    An achieved goal comes first, so that the columns of z are contiguous.
    """
    given = {}
    for name, column in select_stored(transitions.columns()).items():
        given[name] = (tuple(column.shape[1:]), column.dtype)
    columns: Columns = {"episode": ((), torch.int64)}
    if "obs.achieved_goal" in given:
        columns["obs.achieved_goal"] = given.pop("obs.achieved_goal")
    return columns | given | {"link": ((), torch.int32)}


def get_state_columns(state: dict[str, Any]) -> Columns:
    """Return the columns of a storage's state; none if it is empty."""
    named = state.get("columns", {}).items()
    return {name: (tuple(shape), getattr(torch, dtype)) for name, (shape, dtype) in named}


def select_stored(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Return the columns of transitions that are stored as they are."""
    return {name: column for name, column in columns.items() if not name.startswith(DERIVED)}


def observation_columns(columns: Columns) -> Columns:
    """Return the columns of an observation."""
    return {name: spec for name, spec in columns.items() if is_observation(name)}


def is_extra(name: str) -> bool:
    """Return whether a column is an extra column."""
    return name.startswith("extras.")


def is_observation(name: str) -> bool:
    """Return whether a column is the observation or a part of it."""
    return name == "obs" or name.startswith("obs.")


def get_part_name(column: str) -> str:
    """Return the part of an observation, or the extra, in a column; "" for the whole observation."""
    return column.partition(".")[2]


def get_column_name(part: str) -> str:
    """Return the column of a part of an observation; "" is the whole observation."""
    return f"obs.{part}".removesuffix(".")


def feature_columns(columns: Columns) -> tuple[str, ...]:
    """Return the columns of z = [s; a]; for a goal-conditioned observation, of [s; desired goal; a].

    The achieved goal is a function of s and would count twice in distances.
    """
    names = list(observation_columns(columns))
    if {"obs.achieved_goal", "obs.desired_goal"} < set(names):
        names.remove("obs.achieved_goal")
    return (*names, "actions")


def discrete_columns(columns: Columns) -> tuple[str, ...]:
    """Return the integer columns of observation and actions, except arrays of bytes."""
    found = []
    for name in (*observation_columns(columns), "actions"):
        shape, dtype = columns.get(name, ((), torch.float32))
        image = dtype == torch.uint8 and shape
        if not dtype.is_floating_point and not image:
            found.append(name)
    return tuple(found)


def reject_integers(columns: Columns, operation: str, also: Collection[str] = ()) -> None:
    """Reject integer observations and columns in `also`; `operation` is a participle such as "blended"."""
    for name, (_, dtype) in columns.items():
        if (is_observation(name) or name in also) and not dtype.is_floating_point:
            other = "a buffer that does not change rows"
            if operation == "blended":
                other = "a buffer that does not blend rows"
            raise ValueError(f"{name} of {dtype} cannot be {operation}; expected floats, or {other}")


def num_features(columns: Columns) -> int:
    """Return the number of features in z = [s; a] of a row."""
    return sum(math.prod(columns[name][0]) for name in feature_columns(columns))


def signature(columns: dict[str, Tensor]) -> list[tuple[str, tuple[int, ...], torch.dtype]]:
    """Return names, shapes per row and dtypes; transitions with equal signatures are stored without conversion."""
    return [(name, c.shape[1:], c.dtype) for name, c in columns.items() if name not in ("episode", "discounts")]


def cast(transitions: Transitions, columns: Columns) -> Transitions:
    """Return transitions in the stored dtypes.

    Raises:
        ValueError: If columns are missing, unknown, or of another shape, or if values or dtypes cannot be converted
            without losing their kind, such as float to uint8.
    """
    given = get_columns(transitions)
    if set(given) != set(columns):
        names = sorted(set(given) - set(DERIVED))
        stored = sorted(set(columns) - set(DERIVED))
        raise ValueError(f"transitions have the columns {names}; expected the stored columns {stored}")
    for name, (shape, dtype) in given.items():
        if shape != columns[name][0]:
            raise ValueError(f"{name} has shape {shape} per row; stored rows have {columns[name][0]}")
        if not torch.can_cast(dtype, columns[name][1]):
            raise ValueError(f"{name} is {dtype}; stored rows are {columns[name][1]}")

    def observation(which: str, given: Observation) -> Observation:
        names = list(map(get_part_name, observation_columns(columns)))
        parts = observation_parts(given)
        if set(parts) != set(names):
            raise ValueError(f"{which} has the parts {sorted(parts)}; expected the stored parts {sorted(names)}")
        converted = {}
        for name, part in parts.items():
            expected, dtype = columns[get_column_name(name)]
            if tuple(part.shape[1:]) != expected:
                raise ValueError(f"{which} has shape {tuple(part.shape[1:])} per row; stored rows have {expected}")
            converted[name] = _convert(which, part, dtype)
        return join_parts(converted)

    extras = {}
    for name, value in transitions.extras.items():
        extras[name] = _convert(f"extras.{name}", value, columns[f"extras.{name}"][1])
    return transitions.replace(
        obs=observation("obs", transitions.obs),
        next_obs=observation("next_obs", transitions.next_obs),
        actions=_convert("actions", transitions.actions, columns["actions"][1]),
        rewards=transitions.rewards.to(columns["rewards"][1]),
        extras=extras,
    )


def _convert(name: str, column: Tensor, dtype: torch.dtype) -> Tensor:
    """Return `column` in a dtype; integers keep their value, floats may lose digits."""
    converted = column.to(dtype)
    if not dtype.is_floating_point and not torch.equal(converted.to(column.dtype), column):
        bad = column[converted.to(column.dtype) != column][0]
        raise ValueError(f"{name} contains {bad.item()}; stored rows are {dtype}")
    return converted


def check_finite(columns: dict[str, Tensor]) -> None:
    """Raise NonFiniteError for the first NaN or infinity among observations, actions, rewards and extras."""
    for name, column in columns.items():
        if column.is_floating_point() and name != "discounts" and not all_finite(column):
            flat = column.reshape(len(column), -1)
            row = int((~torch.isfinite(flat)).any(dim=1).nonzero()[0])
            bad = flat[row][~torch.isfinite(flat[row])][0]
            raise NonFiniteError(name, row, float(bad))


def all_finite(column: Tensor) -> bool:
    """Return whether a column contains neither NaN nor infinity."""
    if column.device.type != "cpu" or column.dtype is torch.bfloat16:  # numpy has no bfloat16
        return bool(torch.isfinite(column).all())
    # For one row, numpy takes a third of the time, and a sum of squares half of that. The sum may overflow.
    values = column.detach().numpy()
    return math.isfinite(np.vdot(values, values)) or bool(np.isfinite(values).all())
