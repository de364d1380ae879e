"""The columns of stored rows, which are fixed by the first rows."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import NonFiniteError
from interreplay.transitions import Transitions, group_columns, observation_parts

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
    found: list[tuple[str, tuple[int, ...], torch.dtype]] = []
    for name, column in columns.items():
        if name not in ("episode", "discounts"):
            found.append((name, column.shape[1:], column.dtype))
    return found


def cast(transitions: Transitions, columns: Columns) -> Transitions:
    """Return transitions in the stored dtypes.

    Raises:
        ValueError: If columns are missing, unknown, or of another shape, or if values or dtypes cannot be converted
            without losing their kind, such as float to uint8.
    """
    given = transitions.columns()
    names = sorted(select_stored(given))
    stored = sorted(set(columns) - set(DERIVED))
    if names != stored:
        raise ValueError(f"transitions have the columns {names}; expected the stored columns {stored}")
    parts = sorted(observation_parts(transitions.next_obs))
    expected_parts = sorted(map(get_part_name, observation_columns(columns)))
    if parts != expected_parts:
        raise ValueError(f"next_obs has the parts {parts}; expected the stored parts {expected_parts}")
    converted = {}
    for name, column in given.items():
        if name not in ("discounts", "episode"):
            shape, dtype = columns[name.removeprefix("next_")]
            if tuple(column.shape[1:]) != shape:
                raise ValueError(f"{name} has shape {tuple(column.shape[1:])} per row; stored rows have {shape}")
            if name in columns and not torch.can_cast(column.dtype, dtype):
                raise ValueError(f"{name} is {column.dtype}; stored rows are {dtype}")
            converted[name] = column.to(dtype)
            if column.dtype != dtype and not dtype.is_floating_point:
                changed = converted[name].to(column.dtype) != column
                if changed.any():
                    raise ValueError(f"{name} contains {column[changed][0].item()}; stored rows are {dtype}")
    return transitions.replace(**group_columns(converted))


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
