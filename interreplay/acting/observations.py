"""Conversion of one or several observations of an environment to a batch of named columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from interreplay.environments.spaces import as_column, leaves, named_parts


def batch_of(space: gym.Space, observation: Any) -> tuple[dict[str, np.ndarray], bool]:
    """Return one observation, or several along the first dimension of each part, as a batch.

    Returns:
        Parts ``(n, ...)`` by name, see `interreplay.environments.spaces.leaves`; a single part has the name "". And
        whether the input was a single observation without a batch dimension.

    Raises:
        ValueError: The observation does not match the space.
    """
    spaces = leaves(space)
    given = named_parts(observation)
    if not isinstance(given, Mapping):
        given = {"": given}
    if given.keys() != spaces.keys():
        found = ", ".join(map(repr, sorted(given)))
        expected = ", ".join(map(repr, sorted(spaces)))
        raise ValueError(f"the observation has the parts {found}; expected {expected}, as in {space}")
    parts = {}
    counts = {}
    for name, part in spaces.items():
        column = _column(name, part, given[name])
        counts[name] = 0
        if column.shape == part.shape:
            column = column[None]
        else:
            counts[name] = len(column)
        parts[name] = column
    single = 0 in counts.values()
    if len({*counts.values()}) > 1:
        raise ValueError(
            f"the parts have different numbers of observations (0: a single one): {counts}; expected one number"
        )
    return parts, single


def column_type(space: gym.Space) -> np.dtype[Any]:
    """Return the dtype in which parts of observations are stored: the dtype of the space, float32 for float64."""
    if space.dtype == np.float64:
        return np.dtype(np.float32)
    return np.dtype(space.dtype)


def _column(name: str, space: gym.Space, given: Any) -> np.ndarray:
    array = as_column(given)
    which = "the observation"
    if name:
        which += f"'s part {name!r}"
    shape = space.shape or ()
    if array.shape != shape and array.shape[1:] != shape:
        raise ValueError(f"{which} has the shape {array.shape}; expected {shape}, or (n, ...) for several observations")
    dtype = column_type(space)
    if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and dtype.kind != "f"):
        raise ValueError(f"{which} has the type {array.dtype}; expected {dtype}")
    return array.astype(dtype, copy=False)
