"""Examples of your own environments: a point in a room is pushed to a target.

``PointRoom-v0`` has named observations, one of them discrete. ``PointGoal-v0`` has goals, for hindsight replay.
``PointCamera-v0`` observes images. docs/own-environment.md trains on all three from the command line.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

REACHED = 0.15


class Point(gym.Env):
    """A point in the square [−1, 1]² that moves up to .1 per step; an episode ends when it reaches the target.

    Args:
        wind: Shift of the point in each step, to the left or to the right for a whole episode.
        render_mode: ``rgb_array`` or None.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 - gymnasium's way
    action_space = spaces.Box(-1, 1, (2,), np.float32)
    observation_space: spaces.Space = spaces.Dict(
        {"position": spaces.Box(-1, 1, (2,)), "target": spaces.Box(-1, 1, (2,)), "wind": spaces.Discrete(2)}
    )

    def __init__(self, wind: float = 0.02, render_mode: str | None = None):
        self.wind, self.render_mode = wind, render_mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.position, self.target = self.np_random.uniform(-1, 1, (2, 2)).astype(np.float32)
        self.from_left = int(self.np_random.integers(2))
        return self.observed(), {}

    def step(self, action: np.ndarray) -> Any:
        pushed = 0.1 * np.clip(action, -1, 1) + [self.wind if self.from_left else -self.wind, 0]
        self.position = np.clip(self.position + pushed, -1, 1).astype(np.float32)
        reached = bool(self.compute_terminated(self.position, self.target, {}))
        return self.observed(), self.reward(), reached, False, {"is_success": reached}

    def reward(self) -> float:
        return -float(np.linalg.norm(self.position - self.target))

    def compute_terminated(self, achieved: np.ndarray, desired: np.ndarray, info: Any) -> Any:
        return np.linalg.norm(np.asarray(achieved) - desired, axis=-1) < REACHED

    def observed(self) -> Any:
        return {"position": self.position, "target": self.target, "wind": self.from_left}

    def render(self) -> np.ndarray:
        """Return an image ``(48, 48, 3)`` with a green target and a red point."""
        rows, columns = np.mgrid[0:48, 0:48] / 23.5 - 1
        picture = np.zeros((48, 48, 3), np.uint8)
        for place, color in ((self.target, 1), (self.position, 0)):
            picture[(columns - place[0]) ** 2 + (rows - place[1]) ** 2 < REACHED**2, color] = 255
        return picture


class PointGoal(Point):
    """The point with goals and a sparse reward, for hindsight replay.

    Replay calls `compute_reward` and `compute_terminated` with goals that differ from the goal of the step.
    """

    observation_space = spaces.Dict(
        {name: spaces.Box(-1, 1, (2,)) for name in ("observation", "achieved_goal", "desired_goal")}
    )

    def reward(self) -> float:
        return float(self.compute_reward(self.position, self.target, {}))

    def compute_reward(self, achieved: np.ndarray, desired: np.ndarray, info: Any) -> Any:
        return self.compute_terminated(achieved, desired, info).astype(np.float32) - 1

    def observed(self) -> Any:
        return {"observation": self.position, "achieved_goal": self.position, "desired_goal": self.target}


class PointCamera(Point):
    """The point observed as an image; with ``--frame_stack 2``, two images show its direction."""

    observation_space = spaces.Box(0, 255, (48, 48, 3), np.uint8)

    def observed(self) -> Any:
        return self.render()


class ScaledReward(gym.RewardWrapper):
    """Multiplies rewards by a factor.

    Args:
        env: Environment to wrap.
        factor: Factor of the rewards.
    """

    def __init__(self, env: gym.Env, factor: float = 0.1):
        super().__init__(env)
        self.factor = factor

    def reward(self, reward: Any) -> float:
        return self.factor * float(reward)


for _name, _class in (("PointRoom-v0", Point), ("PointGoal-v0", PointGoal), ("PointCamera-v0", PointCamera)):
    gym.register(_name, entry_point=_class, max_episode_steps=60)
