"""Conversion between stored actions and actions of environments."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import iterate

from interreplay.environments.spaces import (
    ACTIONS,
    check_numbers,
    flat_actions,
    leaves,
    name_parts,
    nested,
    width_is_finite,
)


class BoxActions:
    """Continuous actions, stored in [−1, 1].

    Args:
        space: A bounded Box.
        normalized: Whether [−1, 1] is scaled to the whole space instead of clipped to its bounds.

    Attributes:
        shape: Shape of one stored action.
        low: Smallest action of the environment.
        high: Largest action of the environment.
        start: Action of the environment for a stored −1.
        half: Half of the difference between the actions for a stored 1 and −1.
        whole: Whether actions of the environment are integers, to which stored actions are rounded.
    """

    def __init__(self, space: gym.spaces.Box, normalized: bool = True):
        self.shape = space.shape
        self.dtype = space.dtype
        self.whole = np.issubdtype(space.dtype, np.integer)
        self.low = space.low
        self.high = space.high
        if self.whole:
            self.low = self.low.astype(np.float64)  # differences of bounds can exceed the range of small integers
            self.high = self.high.astype(np.float64)
        self.start = np.full_like(self.low, -1.0)
        self.half = np.ones_like(self.low)
        if normalized:
            self.start = self.low
            self.half = 0.5 * (self.high - self.low)

    def to_env(self, actions: np.ndarray) -> np.ndarray:
        """Convert actions ``(n, *shape)`` in [−1, 1] to actions ``(n, *shape)`` of the environment."""
        scaled = self.start + (actions + 1.0) * self.half
        if self.whole:
            scaled = np.rint(scaled)
        return np.minimum(np.maximum(scaled, self.low), self.high).astype(self.dtype)  # np.clip takes twice as long

    def random(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return `count` uniformly random stored actions."""
        return rng.uniform(-1.0, 1.0, (count, *self.shape)).astype(np.float32)

    def first(self, actions: Any) -> Any:
        """Return the first of several actions of an environment."""
        return actions[0]


class NestedActions(BoxActions):
    """Actions of a Dict or Tuple of Boxes, stored as one vector in [−1, 1] with the parts in the order of their names.

    Args:
        space: A Dict or Tuple of bounded Boxes.
        normalized: See `BoxActions`.
    """

    def __init__(self, space: gym.Space, normalized: bool = True):
        super().__init__(flat_actions(space), normalized)  # type: ignore[arg-type]
        self._space = space
        self._parts = dict(sorted(leaves(space).items()))
        self._ends = np.cumsum(list(map(gym.spaces.flatdim, self._parts.values())))[:-1]

    def to_env(self, actions: np.ndarray) -> Any:
        """Convert actions ``(n, d)`` to actions of the environment, each part an array ``(n, ...)``."""
        columns = np.split(super().to_env(actions), self._ends, axis=1)
        parts = {}
        for (name, part), column in zip(self._parts.items(), columns, strict=True):
            if np.issubdtype(part.dtype, np.integer):
                column = np.rint(column)
            parts[name] = column.reshape(len(column), *part.shape).astype(part.dtype)  # type: ignore[misc]
        return nested(self._space, parts)

    def flat(self, actions: Any) -> np.ndarray:
        """Convert actions of the environment, each part an array ``(n, ...)``, to vectors ``(n, d)``."""
        parts = name_parts(actions)
        return np.concatenate([parts[name].reshape(len(parts[name]), -1) for name in self._parts], axis=1)

    def first(self, actions: Any) -> Any:
        return next(iter(iterate(self._space, actions)))


class DiscreteActions:
    """Discrete actions, stored as integers from 0.

    Args:
        space: A Discrete space; its first action need not be 0.
    """

    def __init__(self, space: gym.spaces.Discrete):
        self.shape = ()
        self._count = int(space.n)
        self._start = space.start

    def to_env(self, actions: np.ndarray) -> np.ndarray:
        return actions + self._start

    def random(self, rng: np.random.Generator, count: int) -> np.ndarray:
        return rng.integers(0, self._count, count)

    def first(self, actions: Any) -> Any:
        return actions[0]


Actions = BoxActions | DiscreteActions
"""Actions of one space, as stored in replay buffers and as passed to environments."""


def make_actions(space: gym.Space, normalized: bool = True) -> Actions:
    """Return the actions of a space that `check_action_space` accepts; arguments as in `BoxActions`."""
    if isinstance(space, gym.spaces.Discrete):
        return DiscreteActions(space)
    if isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        return NestedActions(space, normalized)
    return BoxActions(space, normalized)  # type: ignore[arg-type]


def check_action_space(space: gym.Space, kinds: tuple[type[gym.Space], ...]) -> None:
    """Reject action spaces that a policy does not support."""
    flat = flat_actions(space)
    if not isinstance(flat, kinds):
        raise ValueError(f"the action space is {space}; expected {' or '.join(ACTIONS[kind] for kind in kinds)}")
    check_numbers("action", flat)
    if isinstance(flat, gym.spaces.Box) and not flat.is_bounded():
        raise ValueError(f"the action space {space} is unbounded; expected a Box with finite bounds")
    if isinstance(flat, gym.spaces.Box) and not width_is_finite(flat):
        raise ValueError(f"the action space is {space}; expected finite bounds with a finite difference")
