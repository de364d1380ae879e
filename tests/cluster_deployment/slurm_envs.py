"""Environment of the Slurm tests; the jobs import it."""

import os
import time

import gymnasium as gym
from gymnasium.envs.classic_control import PendulumEnv

CRAWLS_AFTER = 220


class Crawling(PendulumEnv):
    """Pendulum whose steps after the 220th take 6 s each until `Job.go` is called.

    A test interrupts the run in the meantime, however busy the machine is.
    """

    def __init__(self, **options):
        super().__init__(**options)
        self.steps = 0
        self.go = f"{os.environ['GO']}_{os.environ.get('SLURM_ARRAY_TASK_ID', '')}"

    def step(self, action):
        self.steps += 1
        for _ in range(60):
            if self.steps <= CRAWLS_AFTER or os.path.exists(self.go):
                break
            time.sleep(0.1)
        return super().step(action)

    def save_state(self):
        """Return what checkpoints store in addition to the random generator."""
        return {"state": self.state}

    def restore_state(self, saved):
        self.state = saved["state"]


gym.register("Crawling-v0", entry_point=Crawling, max_episode_steps=50)
