"""MountainCar and Acrobot as tasks with goals, for hindsight experience replay."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control.acrobot import AcrobotEnv
from gymnasium.envs.classic_control.mountain_car import MountainCarEnv


class AtLeast(gym.Env):
    """One number is to become at least as large as the goal: a reward of −1 per step until it is, which ends it.

    Observations are Dicts of ``observation``, ``achieved_goal`` ``(1,)`` and ``desired_goal`` ``(1,)``.

    Attributes:
        goal: The number to reach, that of the task without goals.
    """

    goal: float

    def achieved(self) -> float:
        """Return the number as it is now."""
        raise NotImplementedError

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        """Return whether goals ``(..., 1)`` are reached, ``(...)``."""
        return np.asarray(achieved)[..., 0] >= np.asarray(desired)[..., 0]

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        """Return rewards ``(...)`` for goals ``(..., 1)``."""
        return self.compute_terminated(achieved, desired, info).astype(np.float32) - np.float32(1)

    def with_goals(self, space: gym.Space, low: float, high: float) -> gym.spaces.Dict:
        """Return the space of observations, goals between two numbers."""
        goals = gym.spaces.Box(low, high, (1,), np.float32)
        return gym.spaces.Dict({"observation": space, "achieved_goal": goals, "desired_goal": goals})

    def observed(self, observation: np.ndarray) -> dict[str, np.ndarray]:
        """Return an observation with its goals."""
        now, goal = np.array([self.achieved()], np.float32), np.array([self.goal], np.float32)
        return {"observation": observation, "achieved_goal": now, "desired_goal": goal}

    def outcome(self, observation: np.ndarray) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Return what a step returns."""
        seen = self.observed(observation)
        reached = bool(self.compute_terminated(seen["achieved_goal"], seen["desired_goal"], {}))
        return seen, float(reached) - 1.0, reached, False, {"is_success": reached}


class GoalMountainCar(AtLeast, MountainCarEnv):
    """MountainCar whose goal is a position at least as far to the right (Moore 1990)."""

    goal = 0.5

    def __init__(self, render_mode: str | None = None):
        MountainCarEnv.__init__(self, render_mode=render_mode)
        self.observation_space = self.with_goals(self.observation_space, self.min_position, self.max_position)

    def achieved(self) -> float:
        return float(self.state[0])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        observation, info = MountainCarEnv.reset(self, seed=seed, options=options)
        return self.observed(observation), info

    def step(self, action: Any) -> Any:
        return self.outcome(MountainCarEnv.step(self, action)[0])


class GoalAcrobot(AtLeast, AcrobotEnv):
    """Acrobot whose goal is a height of the tip, −2 hanging to 2 upright (Sutton 1996)."""

    goal = 1.0

    def __init__(self, render_mode: str | None = None):
        AcrobotEnv.__init__(self, render_mode=render_mode)
        self.observation_space = self.with_goals(self.observation_space, -2.0, 2.0)

    def achieved(self) -> float:
        assert self.state is not None
        return float(-np.cos(self.state[0]) - np.cos(self.state[1] + self.state[0]))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        observation, info = AcrobotEnv.reset(self, seed=seed, options=options)
        return self.observed(observation), info

    def step(self, action: Any) -> Any:
        return self.outcome(AcrobotEnv.step(self, action)[0])
