"""Observations of any Gymnasium space as named columns: nested Dicts and Tuples become one level of parts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym

KINDS = gym.spaces.Box | gym.spaces.Discrete | gym.spaces.MultiDiscrete | gym.spaces.MultiBinary
"""What parts may be; each has a fixed shape."""


def leaves(space: gym.Space) -> dict[str, gym.Space]:
    """Return the parts of an observation space by name; a space without parts is the single part ``""``.

    Parts of a Dict keep their keys, those of a Tuple are numbered, and names of nested ones are joined by ``/``.

    Raises:
        ValueError: When a part is of another kind, naming it.
    """
    found = dict(_walk(space, ""))
    for name, part in found.items():
        if not isinstance(part, KINDS):
            raise ValueError(
                f"{name or 'observation'} is {part}; expected Box, Discrete, MultiDiscrete, MultiBinary, or a Dict "
                "or Tuple of these"
            )
    if not found:
        raise ValueError(f"the observation space {space} has no parts")
    return found


def check_numbers(which: str, space: gym.Space) -> None:
    """Refuse a space without any number, such as a Box of shape (0,).

    Args:
        which: "observation" or "action", for the message.
        space: Of one observation or action.

    Raises:
        ValueError: Naming the space.
    """
    parts = [part for _, part in _walk(space, "")]
    if all(getattr(part, "shape", None) is not None and math.prod(part.shape) == 0 for part in parts):
        raise ValueError(f"the {which} space {space} has no numbers; expected at least one")


def named_parts(observation: Any) -> Any:
    """Return a batch of observations with its parts on one level, named as in `leaves`; one without parts as it is."""
    if isinstance(observation, Mapping | tuple):
        return dict(_walk(observation, ""))
    return observation


def _walk(nested: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    if isinstance(nested, gym.spaces.Dict | gym.spaces.Tuple):
        nested = nested.spaces
    if isinstance(nested, tuple):
        nested = {str(i): part for i, part in enumerate(nested)}
    if not isinstance(nested, Mapping):
        yield prefix, nested
        return
    for name, part in nested.items():
        yield from _walk(part, f"{prefix}/{name}" if prefix else str(name))
