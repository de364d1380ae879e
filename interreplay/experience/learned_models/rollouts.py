"""Rollouts: what a policy would meet if a model were right."""

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
"""Observations ``(n, ...)`` to actions ``(n, *action_shape)``."""


class OfGoals:
    """What an environment says of the goals in the observations that steps led to, such as their rewards.

    Args:
        fn: The environment's, ``(achieved, desired, info)`` of one row or of many.
        dtype: Of what it says.
    """

    def __init__(self, fn: GoalFn, dtype: torch.dtype):
        self.fn, self.dtype = fn, dtype

    def __call__(self, obs: Observation, actions: Tensor, next_obs: Observation) -> Tensor:
        parts = observation_parts(next_obs)
        goals = [parts[name].numpy(force=True) for name in (ACHIEVED, DESIRED)]
        return torch.from_numpy(each(self.fn, *goals)).to(parts[DESIRED].device, self.dtype)


@dataclass(frozen=True)
class Simulation:
    """A model in the place of an environment.

    Attributes:
        dynamics: Predicts.
        columns: How states are observed.
        act: The policy.
        terminated: Which steps end an episode.
        reward: What steps are worth where the model does not predict it.
    """

    dynamics: Dynamics
    columns: StateColumns
    act: Act
    terminated: TerminationFn
    reward: OfGoals | None = None

    def rollouts(
        self, starts: Observation, length: int, rng: np.random.Generator, episodes: Tensor
    ) -> Iterator[Transitions]:
        """Yield the transitions of every step of rollouts that begin in `starts` ``(n, ...)``, at most `length` steps.

        A rollout that terminates is not continued, and neither is one whose prediction is not finite, which is left
        out. The last step of all others is truncated.

        Args:
            starts: Where they begin.
            length: Most steps.
            rng: Source of randomness.
            episodes: Ids ``(n,)`` of the rollouts.
        """
        obs, number = starts, 0
        while number < length and len(episodes):
            number += 1
            rows = self.step(obs, rng, episodes, last=number == length)
            finite = torch.isfinite(self.columns.flatten(rows.next_obs)).all(dim=1) & torch.isfinite(rows.rewards)
            rows = rows if bool(finite.all()) else rows[finite]
            if len(rows):
                yield rows
            going = ~rows.terminated
            obs, episodes = map_observation(lambda part: part[going], rows.next_obs), rows.episode[going]  # noqa: B023

    def step(self, obs: Observation, rng: np.random.Generator, episodes: Tensor, last: bool) -> Transitions:
        """Return one transition from each of the observations ``(n, ...)``; truncated where it is the `last`."""
        actions = self.act(obs, rng)
        found = self.dynamics.step(self.columns.flatten(obs), actions.flatten(1).float(), rng)
        next_obs = self.columns.restore(found.states, obs)
        terminated = self.terminated(obs, actions, next_obs).to(episodes.device, torch.bool)
        rewards = found.rewards
        if self.reward is not None:
            rewards = self.reward(obs, actions, next_obs)
        assert rewards is not None
        truncated = ~terminated if last else torch.zeros_like(terminated)
        return Transitions(obs, actions, rewards, next_obs, terminated, truncated, episodes)
