"""Conversion of one or several observations of an environment to a batch of named columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from interreplay.acting.batching import as_column
from interreplay.environments.spaces import leaves, named_parts


class Batch(NamedTuple):
    """Observations ``(n, ...)``.

    Attributes:
        parts: Parts by name, see `interreplay.environments.spaces.leaves`; a single part has the name "".
        single: Whether the input was a single observation without a batch dimension.
    """

    parts: dict[str, np.ndarray]
    single: bool


def batch_of(space: gym.Space, observation: Any) -> Batch:
    """Return one observation, or several along the first dimension of each part, as a batch.

    Raises:
        ValueError: The observation does not match the space.
    """
    spaces = leaves(space)
    given = named_parts(observation)
    if not isinstance(given, Mapping):
        given = {"": given}
    if given.keys() != spaces.keys():
        found, expected = (", ".join(map(repr, sorted(names))) for names in (given, spaces))
        raise ValueError(f"the observation has the parts {found}; expected {expected}, as in {space}")
    columns = {name: _column(name, part, given[name]) for name, part in spaces.items()}
    singles = {name: column.shape == spaces[name].shape for name, column in columns.items()}
    if len({*singles.values()}) > 1:
        raise ValueError(f"one part of the observation is of one, another of several: {singles}")
    single = all(singles.values())
    parts = {name: column[None] if single else column for name, column in columns.items()}
    counts = {name: len(column) for name, column in parts.items()}
    if len({*counts.values()}) > 1:
        raise ValueError(f"the parts of the observation are of different numbers of observations: {counts}")
    return Batch(parts, single)


def column_type(space: gym.Space) -> np.dtype[Any]:
    """Return the dtype in which parts of observations are stored: the dtype of the space, float32 for float64."""
    return np.dtype(np.float32) if space.dtype == np.float64 else np.dtype(space.dtype)


def _column(name: str, space: gym.Space, given: Any) -> np.ndarray:
    array = as_column(given)
    which = f"the observation's part {name!r}" if name else "the observation"
    shape = space.shape or ()
    if array.shape != shape and array.shape[1:] != shape:
        raise ValueError(f"{which} has the shape {array.shape}; expected {shape}, or (n, ...) of several")
    dtype = column_type(space)
    if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and dtype.kind != "f"):
        raise ValueError(f"{which} has the type {array.dtype}; expected {dtype}")
    return array.astype(dtype, copy=False)
