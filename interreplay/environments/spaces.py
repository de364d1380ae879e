"""Gymnasium spaces: their nested parts as named columns, and their conversion to and from JSON."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from interreplay.storage.columns import Columns, get_column_name

KINDS = gym.spaces.Box | gym.spaces.Discrete | gym.spaces.MultiDiscrete | gym.spaces.MultiBinary
"""Supported kinds of parts; each has a fixed shape."""


ACTIONS: dict[type[gym.Space], str] = {
    gym.spaces.Box: "continuous actions (Box, or a Dict or Tuple of Boxes)",
    gym.spaces.Discrete: "discrete actions (Discrete)",
}
"""Descriptions of the supported kinds of action spaces, for messages."""
FIELDS = {
    "Box": ("low", "high", "shape", "dtype"),
    "Discrete": ("n", "start"),
    "MultiDiscrete": ("nvec", "start", "dtype"),
    "MultiBinary": ("n",),
}
"""Arguments by kind of space."""


def flat_actions(space: gym.Space) -> gym.Space:
    """Return the one-dimensional Box that represents a Dict or Tuple of Boxes; other spaces unchanged.

    Parts are sorted by name, because equal Dicts can list them in different orders.
    """
    if not isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        return space
    low = []
    high = []
    for _, part in sorted(_walk(space, ""), key=operator.itemgetter(0)):
        if not isinstance(part, gym.spaces.Box):
            return space
        low.append(part.low.ravel())
        high.append(part.high.ravel())
    if not low:
        return space
    bounds = np.concatenate(low)
    return gym.spaces.Box(bounds, np.concatenate(high), dtype=bounds.dtype.type)


def nested(space: gym.Space, parts: Mapping[str, np.ndarray], prefix: str = "") -> Any:
    """Return arrays, given by the names of `leaves`, nested like a space."""
    if isinstance(space, gym.spaces.Dict):
        found = {}
        for name, part in space.spaces.items():
            found[name] = nested(part, parts, f"{prefix}/{name}".lstrip("/"))
        return found
    if isinstance(space, gym.spaces.Tuple):
        values = []
        for i, part in enumerate(space.spaces):
            values.append(nested(part, parts, f"{prefix}/{i}".lstrip("/")))
        return tuple(values)
    return parts[prefix]


def leaves(space: gym.Space) -> dict[str, gym.Space]:
    """Return the parts of an observation space by name; a space without parts is the single part ``""``.

    Parts of a Dict have its keys, parts of a Tuple are numbered, and nested names are joined by ``/``.

    Raises:
        ValueError: A part is of an unsupported kind, or two parts have the same name.
    """
    found: dict[str, gym.Space] = {}
    for name, part in _walk(space, ""):
        if name in found:
            raise ValueError(f"{space} has two parts with the name {name}; expected keys without slashes")
        found[name] = part
        if not isinstance(part, KINDS):
            raise ValueError(
                f"{name or 'observation'} is {part}; expected Box, Discrete, MultiDiscrete, MultiBinary, or a Dict "
                "or Tuple of these"
            )
    if not found:
        raise ValueError(f"the observation space {space} has no parts")
    return found


def columns_from_spaces(observation_space: gym.Space, action_space: gym.Space) -> Columns:
    """Return the columns of the stored rows of an environment; float64 is stored as float32.

    Each part of a Dict or Tuple of observations is one column, a Dict or Tuple of actions is one column.

    Raises:
        ValueError: A space has no fixed shape.
    """
    columns: Columns = {"episode": ((), torch.int64)}
    for name, space in leaves(observation_space).items():
        columns[get_column_name(name)] = _column(space)
    flat = flat_actions(action_space)
    shape, dtype = _column(flat)
    if isinstance(flat, gym.spaces.Box):  # stored in [−1, 1]
        dtype = torch.float32
    columns |= {"actions": (shape, dtype), "rewards": ((), torch.float32)}
    return columns | {"terminated": ((), torch.bool), "truncated": ((), torch.bool), "link": ((), torch.int32)}


def _column(space: gym.Space) -> tuple[tuple[int, ...], torch.dtype]:
    if space.shape is None or space.dtype is None:
        raise ValueError(f"{space} has no fixed shape; expected Box, Discrete, MultiDiscrete or a Dict of these")
    dtype = np.float32 if space.dtype == np.float64 else space.dtype
    return tuple(space.shape), torch.from_numpy(np.zeros(1, dtype)).dtype


def width_is_finite(space: gym.spaces.Box) -> bool:
    """Return whether the bounds of a Box and their differences are finite, as scaled actions require."""
    low = space.low
    high = space.high
    if not np.issubdtype(low.dtype, np.floating):
        low = low.astype(np.float64)
        high = high.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(high - low).all())


def have_same_form(one: gym.Space, other: gym.Space) -> bool:
    """Return whether the same networks fit two spaces: their Boxes may have other bounds and precision."""
    parts = dict(_walk(one, ""))
    others = dict(_walk(other, ""))
    return parts.keys() == others.keys() and all(_have_same_part(part, others[name]) for name, part in parts.items())


def _have_same_part(one: gym.Space, other: gym.Space) -> bool:
    if isinstance(one, gym.spaces.Box) and isinstance(other, gym.spaces.Box):
        return one.shape == other.shape and np.dtype(one.dtype).kind == np.dtype(other.dtype).kind
    return one == other


def check_numbers(which: str, space: gym.Space) -> None:
    """Reject a space without any numbers, such as a Box of shape (0,)."""
    for _, part in _walk(space, ""):
        shape = getattr(part, "shape", None)
        if shape is None or math.prod(shape):
            return
    raise ValueError(f"the {which} space {space} has no numbers; expected at least one")


def split_parts(observation: Any) -> dict[str, Any]:
    """Return the parts of observations by name, as in `leaves`; observations without parts are the part ``""``."""
    return dict(_walk(observation, ""))


def name_parts(observation: Any) -> Any:
    """Return the parts of observations by name, as in `leaves`; observations without parts are returned unchanged."""
    return split_parts(observation) if isinstance(observation, Mapping | tuple) else observation


def as_column(observation: Any) -> Any:
    """Return observations as arrays, float64 as float32, and the parts of Dicts and Tuples as named columns."""
    if isinstance(observation, dict | tuple):
        return {name: as_column(part) for name, part in name_parts(observation).items()}
    if isinstance(observation, Tensor):
        observation = observation.detach().cpu()
    array = np.asarray(observation)
    if array.dtype.char == "d":  # float64 in any byte order
        return array.astype(np.float32)
    return array


def _walk(nested: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    if isinstance(nested, gym.spaces.Dict | gym.spaces.Tuple):
        nested = nested.spaces
    if isinstance(nested, tuple):
        nested = dict(enumerate(nested))
    if not isinstance(nested, Mapping):
        yield prefix, nested
        return
    for name, part in nested.items():
        yield from _walk(part, f"{prefix}/{name}".lstrip("/"))


def space_to_record(space: gym.Space) -> dict[str, Any]:
    """Return a space as nested plain values.

    Raises:
        ValueError: Policies do not support this kind of space.
    """
    kind = type(space).__name__
    if isinstance(space, gym.spaces.Dict):
        return {"kind": kind, "parts": {name: space_to_record(part) for name, part in space.spaces.items()}}
    if isinstance(space, gym.spaces.Tuple):
        return {"kind": kind, "parts": list(map(space_to_record, space.spaces))}
    if kind not in FIELDS:
        raise ValueError(f"{space} cannot be stored; expected {', '.join(FIELDS)}, Dict or Tuple")
    record: dict[str, Any] = {"kind": kind}
    for name in FIELDS[kind]:
        value = getattr(space, name)
        if name in ("low", "high") and value.size and (value == value.flat[0]).all():
            value = value.flat[0]  # one number if all bounds are equal
        record[name] = str(value) if name == "dtype" else np.asarray(value).tolist()
    return record


def space_from_record(record: Mapping[str, Any]) -> gym.Space:
    """Return the space of a record that `space_to_record` returned."""
    try:
        kind = record["kind"]
        if kind == "Dict":
            return gym.spaces.Dict({name: space_from_record(part) for name, part in record["parts"].items()})
        if kind == "Tuple":
            return gym.spaces.Tuple(list(map(space_from_record, record["parts"])))
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
        return getattr(gym.spaces, kind)(**given)
    except (KeyError, TypeError, AttributeError, AssertionError) as error:
        raise ValueError(f"{str(record)[:100]} is not a valid space: {error}") from error
