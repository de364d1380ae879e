"""The columns of the stored rows, fixed by the first ones that are added."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from interreplay.argument_checks import check_number
from interreplay.errors import NonFiniteError
from interreplay.transitions import Transitions, join_parts, observation_parts

Columns = dict[str, tuple[tuple[int, ...], torch.dtype]]
"""``{name: (shape of one row, dtype)}``."""

Column = TypeVar("Column", Tensor, np.ndarray)

DERIVED = ("next_obs", "discounts", "episode", "link")
"""Columns of transitions, or of the records, that are not copied as they come."""


def columns_of(transitions: Transitions) -> Columns:
    """Return what a row of these transitions is made of, in the order in which it should lie in memory.

    An achieved goal comes first, so that the columns of z lie side by side.
    """
    given = {name: (tuple(c.shape[1:]), c.dtype) for name, c in stored_columns(transitions.columns()).items()}
    achieved = {name: given.pop(name) for name in ("obs.achieved_goal",) if name in given}
    return {"episode": ((), torch.int64)} | achieved | given | {"link": ((), torch.int32)}


def columns_of_state(state: dict[str, Any]) -> Columns:
    """Return the columns that a chain's state names; none before the first row."""
    named = state.get("columns", {}).items()
    return {name: (tuple(shape), getattr(torch, dtype)) for name, (shape, dtype) in named}


def stored_columns(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Return those of the columns of transitions that are stored as they come; s and a side by side."""
    return {name: c for name, c in columns.items() if not name.startswith(DERIVED)}


def observation_columns(columns: Columns) -> Columns:
    """Return the parts of an observation, as in `columns_of`."""
    return {name: spec for name, spec in columns.items() if is_observation(name)}


def is_extra(name: str) -> bool:
    """Return whether a column is an extra one."""
    return name.startswith("extras.")


def is_observation(name: str) -> bool:
    """Return whether a column is the observation or a part of it."""
    return name == "obs" or name.startswith("obs.")


def part_of(column: str) -> str:
    """Return which part of an observation, or which extra, a column is: "" for the whole observation."""
    return column.partition(".")[2]


def column_of(part: str) -> str:
    """Return the column of a part of an observation; "" is the whole one."""
    return f"obs.{part}" if part else "obs"


def feature_columns(columns: Columns) -> tuple[str, ...]:
    """Return the columns of z = [s; a]; for a goal-conditioned observation [s; desired goal; a].

    What is achieved is a function of s, and would count twice in distances.
    """
    names = [name for name in columns if is_observation(name)]
    if {"obs.achieved_goal", "obs.desired_goal"} < set(names):
        names.remove("obs.achieved_goal")
    return (*names, "actions")


def discrete_columns(columns: Columns) -> tuple[str, ...]:
    """Return the columns of observation and actions that hold choices: whole numbers, but for arrays of bytes."""
    names = (*observation_columns(columns), "actions")
    return tuple(name for name in names if name in columns and _is_choice(*columns[name]))


def _is_choice(shape: tuple[int, ...], dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point and not (dtype == torch.uint8 and shape)


def num_features(columns: Columns) -> int:
    """Return numbers in z = [s; a] of a row."""
    return sum(math.prod(columns[name][0]) for name in feature_columns(columns))


def signature(columns: dict[str, Tensor]) -> list[tuple[str, tuple[int, ...], torch.dtype]]:
    """Return names, shapes per row and dtypes of all columns: equal ones fit each other as they are."""
    return [(name, c.shape[1:], c.dtype) for name, c in columns.items() if name not in ("episode", "discounts")]


def cast(transitions: Transitions, columns: Columns) -> Transitions:
    """Return the same transitions in the stored dtypes.

    Raises:
        ValueError: When a column is missing or too many, or has another shape, or values or a dtype that do
            not convert without losing their kind, such as float to uint8.
    """
    given = columns_of(transitions)
    if set(given) != set(columns):
        raise ValueError(f"transitions have the columns {_named(given)}; stored are {_named(columns)}")
    for name, (shape, dtype) in given.items():
        if shape != columns[name][0]:
            raise ValueError(f"{name} has shape {shape} per row; stored rows have {columns[name][0]}")
        if not torch.can_cast(dtype, columns[name][1]):
            raise ValueError(f"{name} is {dtype}; stored rows are {columns[name][1]}")
    return _cast(transitions, columns)


def _named(columns: Columns) -> list[str]:
    return sorted(set(columns) - set(DERIVED))


def check_finite(columns: dict[str, Tensor]) -> None:
    """Raise NonFiniteError for the first NaN or infinity among observations, actions, rewards and extras."""
    for name, column in columns.items():
        if column.is_floating_point() and name != "discounts" and not all_finite(column):
            flat = column.reshape(len(column), -1)
            row = int((~torch.isfinite(flat)).any(dim=1).nonzero()[0])
            bad = flat[row][~torch.isfinite(flat[row])][0]
            raise NonFiniteError(name, row, float(bad))


def all_finite(column: Tensor) -> bool:
    """Return whether a column holds neither NaN nor infinity."""
    if column.device.type == "cpu":  # for one row, numpy takes a third of the time
        values = column.detach().numpy()
        # A sum of squares takes half the time again; it may be infinite where no number is.
        return math.isfinite(np.vdot(values, values)) or bool(np.isfinite(values).all())
    return bool(torch.isfinite(column).all())


def _obs_dtypes(columns: Columns) -> dict[str, Any]:
    return {part_of(name): spec for name, spec in observation_columns(columns).items()}


def _cast(transitions: Transitions, columns: Columns) -> Transitions:
    inner = _obs_dtypes(columns)

    def observation(which: str) -> Any:
        parts = observation_parts(getattr(transitions, which))
        if set(parts) != set(inner):
            raise ValueError(f"{which} has the parts {sorted(parts)}; stored are {sorted(inner)}")
        for name, part in parts.items():
            if tuple(part.shape[1:]) != inner[name][0]:
                raise ValueError(
                    f"{which} has shape {tuple(part.shape[1:])} per row; stored rows have {inner[name][0]}"
                )
        return join_parts({name: _convert(which, part, inner[name][1]) for name, part in parts.items()})

    extras = transitions.extras.items()
    return transitions.replace(
        obs=observation("obs"),
        next_obs=observation("next_obs"),
        actions=_convert("actions", transitions.actions, columns["actions"][1]),
        rewards=transitions.rewards.to(columns["rewards"][1]),
        extras={name: _convert(f"extras.{name}", value, columns[f"extras.{name}"][1]) for name, value in extras},
    )


def _convert(name: str, column: Tensor, dtype: torch.dtype) -> Tensor:
    """Return `column` in a dtype; integers keep their value, floats may lose digits."""
    converted = column.to(dtype)
    if not dtype.is_floating_point and not torch.equal(converted.to(column.dtype), column):
        bad = column[converted.to(column.dtype) != column][0]
        raise ValueError(f"{name} holds {bad.item()}; stored rows are {dtype}")
    return converted


def check_discount(gamma: float) -> None:
    """Raise ValueError unless γ is a number from 0 to 1."""
    check_number("gamma", gamma, 0, 1)
