"""A trained policy that maps observations of an environment to its actions."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from interreplay.environments.actions import make_actions
from interreplay.environments.spaces import as_column, leaves, split_parts
from interreplay.learning.exploration import Exploration, Noisy, Sampled, make_exploration
from interreplay.transitions import as_tensors


class TrainedPolicy:
    """A policy, its encoder of observations, and the spaces of its environment.

    Args:
        nets: Networks with an ``encoder`` and an ``actor``; they are shared, not copied.
        observation_space: Space of one observation.
        action_space: Space of one action.
        normalized: Whether [−1, 1] is scaled to the whole action space; else it is clipped to its bounds.
        exploration: An exploration, or ``{"type": "Gaussian", "sigma": 0.1}``. None for the policy's distribution or
            the noise of its layers, if it has any.
        seed: Seed of exploration; None for a random one.
        about: Metadata such as ``algorithm`` and ``env``.

    Raises:
        ValueError: The policy does not support this exploration.
    """

    def __init__(
        self,
        nets: Any,
        observation_space: gym.Space,
        action_space: gym.Space,
        normalized: bool = True,
        exploration: Exploration | dict[str, Any] | None = None,
        seed: int | None = None,
        about: dict[str, Any] | None = None,
    ):
        self.nets = nets
        self.about = about or {}
        self.observation_space = observation_space
        self.action_space = action_space
        self.normalized = normalized
        self._actions = make_actions(action_space, normalized)
        self.exploration: Exploration | None = None
        if exploration is not None:
            self.exploration = make_exploration(exploration)
        elif nets.actor.stochastic:
            self.exploration = Sampled()
        elif nets.actor.noisy:
            self.exploration = Noisy()
        if self.exploration is not None:
            self.exploration.check(nets.actor)
        self._memory = None
        self._rng = torch.Generator(device=self._device)
        self._rng.manual_seed(self._rng.seed() if seed is None else int(seed))

    def act(self, obs: Any, explore: bool = False) -> Any:
        """Return an action for one observation, or actions ``(n, ...)`` for several, in the environment's units.

        A recurrent policy updates its state, which `start` and a different number of observations reset.

        Args:
            obs: An observation as the environment returns it: an array, a number, a mapping or a tuple; or n
                observations along the first dimension of each part.
            explore: Whether to explore; else the action is the best one or the mode.

        Raises:
            ValueError: The observation does not match the space or contains NaN or infinity, or the policy has no
                exploration.
        """
        parts, single = as_batch(self.observation_space, obs)
        if explore and self.exploration is None:
            raise ValueError(
                "explore is True and the policy has no distribution; expected an exploration, such as "
                "exploration={'type': 'Gaussian', 'sigma': 0.1}"
            )
        with torch.no_grad():
            encoded = self._act_with_memory(self._encode(parts))
            if explore and self.exploration is not None:
                chosen = self.exploration.act(self.nets.actor, encoded, self._rng)
            else:
                chosen = self.nets.actor.act(encoded)
        kept = chosen.cpu().numpy().reshape(len(encoded), *self._actions.shape)
        actions = self._actions.to_env(kept)
        if single:
            return self._actions.first(actions)
        return actions

    def output(self, obs: Any) -> Tensor:
        """Return the outputs of the policy's network for observations ``(n, ...)``.

        A recurrent policy treats each observation as the first of an episode.
        """
        with torch.no_grad():
            parts, _ = as_batch(self.observation_space, obs)
            encoded = self._encode(parts)
            memory = self.nets.actor.memory
            if memory is not None:
                encoded = memory.step(encoded, memory.begin(len(encoded)))[0]
            return self.nets.actor.output(encoded)

    def start(self) -> None:
        """Reset the recurrent state and the exploration at the start of episodes."""
        self._memory = None
        if self.exploration is not None:
            self.exploration.start(np.ones(1, dtype=bool))

    def _encode(self, parts: dict[str, np.ndarray]) -> Tensor:
        return self.nets.encoder(as_tensors(parts.get("", parts), self._device))

    def _act_with_memory(self, encoded: Tensor) -> Tensor:
        memory = self.nets.actor.memory
        if memory is None:
            return encoded
        if self._memory is None or len(self._memory["h"]) != len(encoded):
            self._memory = memory.begin(len(encoded))
        seen, self._memory = memory.step(encoded, self._memory)
        return seen

    @property
    def _device(self) -> torch.device:
        return next(self.nets.actor.parameters()).device

    def __repr__(self) -> str:
        known = f"{self.about.get('algorithm', 'a policy')} {self.about.get('env', '')}".rstrip()
        return f"TrainedPolicy({known}: {self.observation_space} -> {self.action_space})"


def as_batch(space: gym.Space, observation: Any) -> tuple[dict[str, np.ndarray], bool]:
    """Return one observation, or several along the first dimension of each part, as a batch.

    Returns:
        Parts ``(n, ...)`` by name, see `interreplay.environments.spaces.leaves`; a single part has the name "". And
        whether the input was a single observation without a batch dimension.

    Raises:
        ValueError: The observation does not match the space, or contains NaN or infinity.
    """
    spaces = leaves(space)
    given = split_parts(observation)
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
    if array.shape != shape and (array.shape[1:] != shape or not len(array)):
        raise ValueError(f"{which} has the shape {array.shape}; expected {shape}, or (n, ...) for several observations")
    dtype = column_type(space)
    if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and dtype.kind != "f"):
        raise ValueError(f"{which} has the type {array.dtype}; expected {dtype}")
    converted = array.astype(dtype, copy=False)
    if dtype.kind == "f" and not np.isfinite(converted).all():
        bad = converted[~np.isfinite(converted)][0]
        raise ValueError(f"{which} contains {bad}; expected finite values")
    if dtype.kind != "f" and not np.array_equal(array, converted):
        raise ValueError(f"{which} has values from {array.min()} to {array.max()}; expected values of {dtype}")
    if isinstance(space, gym.spaces.Discrete | gym.spaces.MultiDiscrete):
        choices = space.n if isinstance(space, gym.spaces.Discrete) else space.nvec
        if np.any(array < space.start) or np.any(array >= space.start + choices):
            raise ValueError(f"{which} has values from {array.min()} to {array.max()}; expected values of {space}")
    return converted
