"""Goal-conditioned MountainCar and Acrobot, for hindsight experience replay."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control.acrobot import AcrobotEnv
from gymnasium.envs.classic_control.mountain_car import MountainCarEnv


class ThresholdTask(gym.Env):
    """A task to raise a number to the goal, which ends the episode; the reward is −1 per step and 0 at the goal.

    Observations are Dicts of ``observation``, ``achieved_goal`` ``(1,)`` and ``desired_goal`` ``(1,)``.

    Attributes:
        goal: The desired number, the threshold of the original task.
        bounds: The smallest and the largest number.
    """

    goal: float
    bounds: tuple[float, float]

    def __init__(self, render_mode: str | None = None):
        super().__init__(render_mode=render_mode)  # type: ignore[call-arg]
        goals = gym.spaces.Box(*self.bounds, (1,), np.float32)
        spaces = {"observation": self.observation_space, "achieved_goal": goals, "desired_goal": goals}
        self.observation_space = gym.spaces.Dict(spaces)

    def achieved(self) -> float:
        """Return the current number."""
        raise NotImplementedError

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        """Return whether goals ``(..., 1)`` are reached, ``(...)``."""
        return np.asarray(achieved)[..., 0] >= np.asarray(desired)[..., 0]

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        """Return rewards ``(...)`` for goals ``(..., 1)``."""
        return self.compute_terminated(achieved, desired, info).astype(np.float32) - np.float32(1)

    def add_goals(self, observation: np.ndarray) -> dict[str, np.ndarray]:
        """Add the goals to an observation."""
        return {
            "observation": observation,
            "achieved_goal": np.array([self.achieved()], np.float32),
            "desired_goal": np.array([self.goal], np.float32),
        }

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        observation, info = super().reset(seed=seed, options=options)
        return self.add_goals(observation), info

    def step(self, action: Any) -> Any:
        seen = self.add_goals(super().step(action)[0])
        reached = bool(self.compute_terminated(seen["achieved_goal"], seen["desired_goal"], {}))
        return seen, float(reached) - 1.0, reached, False, {"is_success": reached}


class GoalMountainCar(ThresholdTask, MountainCarEnv):
    """MountainCar (Moore 1990) with a goal position to reach or pass."""

    goal = 0.5
    bounds = (-1.2, 0.6)

    def achieved(self) -> float:
        return float(self.state[0])


class GoalAcrobot(ThresholdTask, AcrobotEnv):
    """Acrobot (Sutton 1996) with a goal height of the tip, from −2 (hanging) to 2 (upright)."""

    goal = 1.0
    bounds = (-2.0, 2.0)

    def achieved(self) -> float:
        assert self.state is not None
        return float(-np.cos(self.state[0]) - np.cos(self.state[1] + self.state[0]))
