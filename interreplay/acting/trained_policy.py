"""A trained policy by itself: from observations as an environment gives them to actions as it takes them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from interreplay.acting.actions import actions_of
from interreplay.acting.batching import as_tensors
from interreplay.acting.observations import batch_of
from interreplay.learning.exploration import Exploration, Noisy, Sampled, make_exploration
from interreplay.learning.policies import Policy


class TrainedPolicy:
    """A policy, what encodes observations for it, and the spaces of its environment.

    Args:
        nets: Networks with an ``encoder`` and an ``actor``; they are shared, not copied.
        observation_space: Of one observation.
        action_space: Of one action.
        normalized: Whether [−1, 1] stands for the whole action space; else for itself, within its bounds.
        exploration: How it acts where it is asked to explore, also as ``{"type": "Gaussian", "sigma": 0.1}``. None for
            its own distribution, or the noise of its layers, where it has one of them.
        seed: Of exploration; None for another one every time.
        about: What is known of where it comes from, such as ``algorithm`` and ``env``.

    Raises:
        ValueError: The policy cannot explore in this way.
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
        self.nets, self.about = nets, about or {}
        self.observation_space, self.action_space = observation_space, action_space
        self.normalized = normalized
        self._actions = actions_of(action_space, normalized)
        self.exploration = _own(nets.actor) if exploration is None else make_exploration(exploration)
        if self.exploration is not None:
            self.exploration.check(nets.actor)
        self._seed, self._memory = seed, None
        self._rng: torch.Generator | None = None

    def act(self, obs: Any, explore: bool = False) -> Any:
        """Return an action for an observation, or actions ``(n, ...)`` for several, in the environment's units.

        A policy with memory remembers what it saw: `start` begins an episode, and so does another number of
        observations.

        Args:
            obs: As the environment gives it: an array, a number, a mapping or a tuple of such; of several, each part
                has n of them along its first dimension.
            explore: Whether to explore; else the action is the policy's best one, or its mode.

        Raises:
            ValueError: The observation is not of the space, or the policy has no way to explore.
        """
        batch = batch_of(self.observation_space, obs)
        with torch.no_grad():
            encoded = self._remembering(self._encoded(batch.parts))
            chosen = self._explored(encoded) if explore else self.nets.actor.act(encoded)
        kept = chosen.cpu().numpy().reshape(len(encoded), *self._actions.shape)
        actions = self._actions.to_env(kept)
        return self._actions.first(actions) if batch.single else actions

    def output(self, obs: Any) -> Tensor:
        """Return what the policy's network gives for observations ``(n, ...)``, of which actions are made.

        Of a policy with memory, as if each were the first of an episode.
        """
        with torch.no_grad():
            encoded = self._encoded(batch_of(self.observation_space, obs).parts)
            memory = self.nets.actor.memory
            seen = encoded if memory is None else memory.step(encoded, memory.begin(len(encoded)))[0]
            return self.nets.actor.output(seen)

    def start(self) -> None:
        """Note that episodes begin, for a memory, and exploration, that depend on what went before."""
        self._memory = None
        if self.exploration is not None:
            self.exploration.start(np.ones(1, dtype=bool))

    def _encoded(self, parts: dict[str, np.ndarray]) -> Tensor:
        given = parts[""] if parts.keys() == {""} else parts
        return self.nets.encoder(as_tensors(given, self._device))

    def _remembering(self, encoded: Tensor) -> Tensor:
        memory = self.nets.actor.memory
        if memory is None:
            return encoded
        if self._memory is None or len(self._memory["h"]) != len(encoded):
            self._memory = memory.begin(len(encoded))
        seen, self._memory = memory.step(encoded, self._memory)
        return seen

    def _explored(self, encoded: Tensor) -> Tensor:
        if self.exploration is None:
            raise ValueError(
                "explore is True and the policy has no distribution; expected an exploration to be given, such as "
                "exploration={'type': 'Gaussian', 'sigma': 0.1}"
            )
        return self.exploration.act(self.nets.actor, encoded, self._generator())

    @property
    def _device(self) -> torch.device:
        return next(self.nets.actor.parameters()).device

    def _generator(self) -> torch.Generator:
        if self._rng is None:
            self._rng = torch.Generator(device=self._device)
            self._rng.seed() if self._seed is None else self._rng.manual_seed(self._seed)
        return self._rng

    def __repr__(self) -> str:
        told = " ".join(str(self.about[name]) for name in ("algorithm", "env") if self.about.get(name))
        return f"TrainedPolicy({told or 'a policy'}: {self.observation_space} -> {self.action_space})"


def _own(policy: Policy) -> Exploration | None:
    """Return the exploration that a policy brings along."""
    if policy.stochastic:
        return Sampled()
    return Noisy() if policy.noisy else None
