"""Catch: a small pixel environment that is learned in seconds."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

ROWS = 10
COLUMNS = 5


class Catch(gym.Env):
    """A ball falls one row per step from a random column; the paddle in the last row moves left, stays or moves right.

    The task of bsuite (Osband et al. 2020, arXiv:1908.03568): the ninth step ends the episode with a reward of +1 if
    the ball is caught, else −1. Uniformly random actions return about −.6.
    """

    observation_space = gym.spaces.Box(0, 1, (ROWS, COLUMNS), bool)  # type: ignore[arg-type]
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.row = 0
        self.column = int(self.np_random.integers(COLUMNS))
        self.paddle = COLUMNS // 2
        return self._pixels(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.paddle = min(max(self.paddle + int(action) - 1, 0), COLUMNS - 1)
        self.row += 1
        over = self.row == ROWS - 1
        reward = 0.0
        if over:
            reward = 1.0 if self.paddle == self.column else -1.0
        return self._pixels(), reward, over, False, {}

    def _pixels(self) -> np.ndarray:
        pixels = np.zeros((ROWS, COLUMNS), bool)
        pixels[self.row, self.column] = pixels[-1, self.paddle] = True
        return pixels
