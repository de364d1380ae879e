"""Conversion of spaces to plain values for JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

FIELDS = {
    "Box": ("low", "high", "shape", "dtype"),
    "Discrete": ("n", "start"),
    "MultiDiscrete": ("nvec", "start", "dtype"),
    "MultiBinary": ("n",),
}
"""Arguments by kind of space."""


def record_of(space: gym.Space) -> dict[str, Any]:
    """Return a space as nested plain values.

    Raises:
        ValueError: Policies do not support this kind of space.
    """
    kind = type(space).__name__
    if isinstance(space, spaces.Dict):
        return {"kind": kind, "parts": {name: record_of(part) for name, part in space.spaces.items()}}
    if isinstance(space, spaces.Tuple):
        return {"kind": kind, "parts": list(map(record_of, space.spaces))}
    if kind not in FIELDS:
        raise ValueError(f"{space} cannot be stored; expected {', '.join(FIELDS)}, Dict or Tuple")
    record: dict[str, Any] = {"kind": kind}
    for name in FIELDS[kind]:
        value = getattr(space, name)
        if name in ("low", "high") and value.size and (value == value.flat[0]).all():
            value = value.flat[0]  # one number if all bounds are equal
        record[name] = str(value) if name == "dtype" else np.asarray(value).tolist()
    return record


def space_of(record: Mapping[str, Any]) -> gym.Space:
    """Return the space of a record that `record_of` returned."""
    try:
        kind = record["kind"]
        if kind == "Dict":
            return spaces.Dict({name: space_of(part) for name, part in record["parts"].items()})
        if kind == "Tuple":
            return spaces.Tuple(list(map(space_of, record["parts"])))
        given = {name: record[name] for name in FIELDS[kind]}
        for name in {"nvec", "start"} & given.keys():
            given[name] = np.array(given[name])[()]
        if "dtype" in given:
            given["dtype"] = np.dtype(given["dtype"]).type
        if kind == "Box":
            shape = tuple(given["shape"])
            for name in ("low", "high"):
                given[name] = np.broadcast_to(np.array(given[name], given["dtype"]), shape).copy()
            given["shape"] = shape
        return getattr(spaces, kind)(**given)
    except (KeyError, TypeError, AttributeError, AssertionError) as error:
        raise ValueError(f"{str(record)[:100]} is not a valid space: {error}") from error
