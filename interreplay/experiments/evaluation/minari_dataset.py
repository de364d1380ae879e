"""Record episodes as a Minari dataset."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np

from interreplay.experience.offline_data import minari_episodes


class Recorder(gym.Wrapper):
    """Environment that keeps the observations it returns and the actions it receives.

    `minari.DataCollector` does the same but requires JAX.
    """

    def __init__(self, env: gym.Env):
        super().__init__(env)
        minari_episodes.check_keys(self.observation_space)
        minari_episodes.check_keys(self.action_space)
        self._episodes: list[list[Any]] = []
        self._observations: list[Any] = []
        self._steps: list[tuple[Any, float, bool, bool]] = []

    def reset(self, **options: Any) -> Any:
        self._end_episode()
        obs, info = self.env.reset(**options)
        self._observations = [copy.deepcopy(obs)]  # an environment may change it in place
        return obs, info

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._observations.append(copy.deepcopy(obs))
        self._steps.append((action, float(reward), bool(terminated), bool(truncated)))
        return obs, reward, terminated, truncated, info

    def _end_episode(self) -> None:
        if self._steps:
            self._episodes.append([self._observations, *zip(*self._steps, strict=True)])
        self._steps = []

    def write(self, name: str, algorithm: str) -> str:
        """Write the episodes as the dataset `name`, and return the name with the numbers of episodes and steps."""
        self._end_episode()
        episodes = []
        for observations, actions, rewards, terminations, truncations in self._episodes:
            episodes.append(
                {
                    "observations": _nested(observations, self.observation_space),
                    "actions": _nested(actions, self.action_space),
                    "rewards": list(rewards),
                    "terminations": list(terminations),
                    "truncations": [*truncations[:-1], not terminations[-1]],
                }
            )
        spaces = (self.observation_space, self.action_space)
        return minari_episodes.write(name, episodes, spaces, self.env.spec, algorithm)


def _nested(values: Any, space: gym.Space) -> Any:
    """Return values of many steps as arrays, nested as their space and with its dtypes."""
    if isinstance(space, gym.spaces.Dict):
        found = {}
        for key, part in space.items():
            found[key] = _nested([value[key] for value in values], part)
        return found
    if isinstance(space, gym.spaces.Tuple):
        return tuple(map(_nested, zip(*values, strict=True), space))
    return np.asarray(values).astype(space.dtype)
