"""Record episodes as a Minari dataset."""

from __future__ import annotations

import copy
import warnings
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import numpy as np


class Recorder(gym.Wrapper):
    """Environment that keeps the observations it returns and the actions it receives.

    `minari.DataCollector` does the same but requires JAX.
    """

    def __init__(self, env: gym.Env):
        super().__init__(env)
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
        """Write the recorded episodes to disk.

        Args:
            name: Name of the dataset, such as ``pendulum/sac-v0``.
            algorithm: Name of the algorithm that acted.

        Returns:
            The name with the numbers of episodes and steps.
        """
        import minari
        from minari.data_collector import EpisodeBuffer

        self._end_episode()
        buffers: list[EpisodeBuffer] = []
        for observations, actions, rewards, terminations, truncations in self._episodes:
            buffers.append(
                EpisodeBuffer(
                    id=len(buffers),
                    observations=_nested(observations, self.observation_space),
                    actions=_nested(actions, self.action_space),
                    rewards=list(rewards),
                    terminations=list(terminations),
                    truncations=[*truncations[:-1], not terminations[-1]],
                )
            )
        spec = self.env.spec
        try:
            spec.to_json()  # type: ignore[union-attr]
        except Exception:  # the entry point is a function, or the specification is missing
            spec = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Minari warns about missing authors and links
            dataset = minari.create_dataset_from_buffers(
                name,
                buffers,
                env=spec,
                observation_space=self.observation_space,
                action_space=self.action_space,
                algorithm_name=algorithm,
                requirements=[],
                data_format="hdf5" if find_spec("h5py") else "arrow",
            )
        return f"{name} ({dataset.total_episodes} episodes, {dataset.total_steps:,} steps)"


def _nested(values: Any, space: gym.Space) -> Any:
    """Return values of many steps as lists, nested as their space and with its dtypes."""
    if isinstance(space, gym.spaces.Dict):
        return {key: _nested([value[key] for value in values], part) for key, part in space.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(_nested([value[i] for value in values], part) for i, part in enumerate(space))
    return list(np.asarray(values).astype(space.dtype))
