"""Rollouts of a policy in a learned model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from interreplay.environments.terminations import TerminationFn
from interreplay.experience.learned_models.dynamics import Dynamics
from interreplay.experience.learned_models.states import ACHIEVED, DESIRED, StateColumns
from interreplay.synthesis.relabel import GoalFn, each
from interreplay.transitions import Observation, Transitions, map_observation, observation_parts

Act = Callable[[Observation, np.random.Generator], Tensor]
"""Maps observations ``(n, ...)`` to actions ``(n, *action_shape)``."""


class GoalFunction:
    """An environment's function of goals, such as its reward, evaluated for the observations after steps.

    Args:
        fn: The environment's function ``(achieved, desired, info)`` of one row or of many.
        dtype: Type of its values.
    """

    def __init__(self, fn: GoalFn, dtype: torch.dtype):
        self.fn = fn
        self.dtype = dtype

    def __call__(self, obs: Observation, actions: Tensor, next_obs: Observation) -> Tensor:
        parts = observation_parts(next_obs)
        goals = [parts[name].numpy() for name in (ACHIEVED, DESIRED)]
        return torch.from_numpy(each(self.fn, *goals)).to(self.dtype)


@dataclass(frozen=True)
class Simulation:
    """A learned model that replaces an environment.

    Attributes:
        dynamics: The model.
        columns: Maps observations to states.
        act: The policy.
        terminated: Which steps end an episode.
        reward: Reward function, for models that do not predict rewards.
    """

    dynamics: Dynamics
    columns: StateColumns
    act: Act
    terminated: TerminationFn
    reward: GoalFunction | None = None

    def rollouts(
        self, starts: Observation, length: int, rng: np.random.Generator, episodes: Tensor
    ) -> Iterator[Transitions]:
        """Yield the transitions of each step of rollouts from `starts` ``(n, ...)``, at most `length` steps.

        A rollout ends when it terminates or when its prediction is not finite; such a prediction is discarded. The
        last step of all other rollouts is truncated.

        Args:
            starts: Initial observations.
            length: Maximum number of steps.
            rng: Source of randomness.
            episodes: Ids ``(n,)`` of the rollouts.
        """
        obs = starts
        for number in range(1, length + 1):
            if not len(episodes):
                break
            rows = self.step(obs, rng, episodes, last=number == length)
            finite = torch.isfinite(self.columns.flatten(rows.next_obs)).all(dim=1) & torch.isfinite(rows.rewards)
            if not bool(finite.all()):
                rows = rows[finite]
            if len(rows):
                yield rows
            alive = ~rows.terminated
            obs = map_observation(lambda part: part[alive], rows.next_obs)  # noqa: B023
            episodes = rows.episode[alive]

    def step(self, obs: Observation, rng: np.random.Generator, episodes: Tensor, last: bool) -> Transitions:
        """Return one transition from each of the observations ``(n, ...)``, truncated if it is the `last` one."""
        actions = self.act(obs, rng)
        prediction = self.dynamics.step(self.columns.flatten(obs), actions.flatten(1).float(), rng)
        next_obs = self.columns.restore(prediction.states, obs)
        terminated = self.terminated(obs, actions, next_obs).to(torch.bool)
        rewards = prediction.rewards if self.reward is None else self.reward(obs, actions, next_obs)
        assert rewards is not None
        truncated = ~terminated if last else torch.zeros_like(terminated)
        return Transitions(obs, actions, rewards, next_obs, terminated, truncated, episodes)
