"""Conversion of spaces to plain values for JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


def record_of(space: gym.Space) -> dict[str, Any]:
    """Return a space as nested plain values.

    Raises:
        ValueError: Policies do not support this kind of space.
    """
    kind = type(space).__name__
    if isinstance(space, spaces.Box):
        bounds = {"low": _bound(space.low), "high": _bound(space.high)}
        return {"kind": kind, **bounds, "shape": list(space.shape), "dtype": str(space.dtype)}
    if isinstance(space, spaces.Discrete):
        return {"kind": kind, "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        values = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
        return {"kind": kind, **values, "dtype": str(space.dtype)}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": kind, "n": space.n if isinstance(space.n, int) else list(space.n)}
    if isinstance(space, spaces.Dict):
        return {"kind": kind, "parts": {name: record_of(part) for name, part in space.spaces.items()}}
    if isinstance(space, spaces.Tuple):
        return {"kind": kind, "parts": [record_of(part) for part in space.spaces]}
    raise ValueError(f"{space} cannot be stored; expected Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple")


def space_of(record: Mapping[str, Any]) -> gym.Space:
    """Return the space of a record that `record_of` returned.

    Raises:
        ValueError: The record is invalid.
    """
    try:
        return _MAKERS[record["kind"]](record)
    except (KeyError, TypeError, AttributeError, AssertionError) as error:
        raise ValueError(f"{str(record)[:100]} describes no space: {error}") from error


def _box(record: Mapping[str, Any]) -> gym.Space:
    dtype = np.dtype(record["dtype"])
    shape = tuple(record["shape"])
    low, high = (np.broadcast_to(np.array(record[name], dtype=dtype), shape) for name in ("low", "high"))
    return spaces.Box(low.copy(), high.copy(), shape, dtype.type)


def _multi_discrete(record: Mapping[str, Any]) -> gym.Space:
    dtype = np.dtype(record["dtype"]).type
    return spaces.MultiDiscrete(np.array(record["nvec"]), dtype=dtype, start=np.array(record["start"]))


_MAKERS: dict[str, Any] = {
    "Box": _box,
    "Discrete": lambda record: spaces.Discrete(record["n"], start=record["start"]),
    "MultiDiscrete": _multi_discrete,
    "MultiBinary": lambda record: spaces.MultiBinary(record["n"]),
    "Dict": lambda record: spaces.Dict({name: space_of(part) for name, part in record["parts"].items()}),
    "Tuple": lambda record: spaces.Tuple([space_of(part) for part in record["parts"]]),
}


def _bound(values: np.ndarray) -> Any:
    """Return one number if all bounds are equal, else nested lists."""
    return values.flat[0].item() if values.size and (values == values.flat[0]).all() else values.tolist()
