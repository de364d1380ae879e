"""Environment in which each run of a study is worse than the one before."""

import json
from pathlib import Path

import gymnasium as gym
from gymnasium.envs.classic_control import PendulumEnv


class Worse(PendulumEnv):
    """Subtracts a penalty from rewards that grows with the number of finished runs in `results`."""

    def __init__(self, results="."):
        super().__init__()
        states = [json.loads(path.read_text())["state"] for path in Path(results).glob("*/status.json")]
        self.penalty = 1_000 * states.count("finished")

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, reward - self.penalty, *rest


gym.register("Worse-v0", entry_point=Worse, max_episode_steps=50)
