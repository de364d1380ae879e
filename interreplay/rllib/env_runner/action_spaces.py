"""Between actions as policies make them and buffers keep them, and those of environments."""

from __future__ import annotations

from typing import Protocol

import gymnasium as gym
import numpy as np


class Actions(Protocol):
    """What a runner asks about actions.

    Attributes:
        shape: Of one action, as it is kept.
    """

    shape: tuple[int, ...]

    def to_env(self, actions: np.ndarray) -> np.ndarray:
        """Actions ``(n, *shape)`` of the environment for kept ones."""

    def random(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """`count` kept actions, uniformly random."""


class ActionScale(Actions):
    """Continuous actions, kept in [−1, 1].

    Args:
        space: A bounded Box.
    """

    def __init__(self, space: gym.spaces.Box):
        self.shape = space.shape
        self.low, self.high, self._half = space.low, space.high, 0.5 * (space.high - space.low)
        self.dtype = space.dtype

    def to_env(self, actions: np.ndarray) -> np.ndarray:
        """Actions ``(n, *shape)`` of the environment for `actions` ``(n, *shape)`` in [−1, 1]."""
        scaled = self.low + (actions + 1.0) * self._half
        return np.minimum(np.maximum(scaled, self.low), self.high).astype(self.dtype)  # np.clip takes twice as long

    def random(self, rng: np.random.Generator, count: int) -> np.ndarray:
        return rng.uniform(-1.0, 1.0, (count, *self.shape)).astype(np.float32)


class ActionNumbers(Actions):
    """Discrete actions, kept as numbers from 0 on.

    Args:
        space: Whose actions may be numbered from elsewhere on.
    """

    def __init__(self, space: gym.spaces.Discrete):
        self.shape, self._count, self._start = (), int(space.n), space.start

    def to_env(self, actions: np.ndarray) -> np.ndarray:
        return actions + self._start

    def random(self, rng: np.random.Generator, count: int) -> np.ndarray:
        return rng.integers(0, self._count, count)


def actions_of(space: gym.Space) -> Actions:
    """The actions of a space that `check_action_space` lets pass."""
    return ActionNumbers(space) if isinstance(space, gym.spaces.Discrete) else ActionScale(space)  # type: ignore[arg-type]


def check_action_space(space: gym.Space, kinds: tuple[type[gym.Space], ...]) -> None:
    """Refuse spaces that a policy cannot act in.

    Args:
        space: Of one action.
        kinds: That it can act in.

    Raises:
        ValueError: Naming the space.
    """
    if not isinstance(space, kinds):
        also = " or Discrete ones" if gym.spaces.Discrete in kinds else ""
        raise ValueError(f"the action space is {space}; expected a Box of continuous actions{also}")
    if isinstance(space, gym.spaces.Box) and not space.is_bounded():
        raise ValueError(f"the action space {space} is unbounded; expected a Box with finite bounds")
