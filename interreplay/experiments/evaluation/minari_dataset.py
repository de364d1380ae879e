"""Episodes into a Minari dataset."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import numpy as np

from interreplay.environments.spaces import named_parts
from interreplay.experience.offline_data.minari_episodes import check_new


class Recorder:
    """Collects finished episodes and writes them as a dataset, with the actions that the environment was given.

    Args:
        name: Of the dataset, such as ``pendulum/sac-v0``.

    Raises:
        UsageError: Minari is not installed, the name is malformed, or there is a dataset of this name.
    """

    def __init__(self, name: str):
        check_new(name)
        self.name = name
        self._episodes: list[Any] = []
        self._spaces: tuple[Any, ...] = ()

    def add(self, episode: Any, runner: Any) -> None:
        """Add a finished episode of RLlib's, played by this runner."""
        from minari.data_collector import EpisodeBuffer

        env = runner.env.unwrapped.envs[0]
        self._spaces = env.observation_space, env.action_space, env
        length = len(episode)
        over = np.arange(1, length + 1) == length
        self._episodes.append(
            EpisodeBuffer(
                id=len(self._episodes),
                observations=_as(episode.get_observations(), env.observation_space),
                actions=_as(_actions(episode, runner), env.action_space),
                rewards=[float(reward) for reward in episode.get_rewards()],
                terminations=list(over & bool(episode.is_terminated)),
                truncations=list(over & bool(episode.is_truncated)),
            )
        )

    def write(self, algorithm: str) -> str:
        """Write the dataset.

        Args:
            algorithm: Name of what played.

        Returns:
            What was written.
        """
        import minari

        observation_space, action_space, env = self._spaces
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about authors and links, which nobody gave
            minari.create_dataset_from_buffers(
                self.name,
                self._episodes,
                env=_spec(env),
                observation_space=observation_space,
                action_space=action_space,
                algorithm_name=algorithm,
                requirements=[],
                data_format="hdf5" if find_spec("h5py") else "arrow",
            )
        steps = sum(len(episode.rewards) for episode in self._episodes)
        return f"{self.name} ({len(self._episodes)} episodes, {steps:,} steps)"


def _actions(episode: Any, runner: Any) -> Any:
    """Return what the environment was given: our runners keep actions in [−1, 1], RLlib's note both."""
    actions = np.asarray(episode.get_actions())
    scale = getattr(runner, "_scale", None)
    if scale is not None:
        return scale.to_env(actions)
    if "actions_for_env" in episode.extra_model_outputs:
        return np.asarray(episode.get_extra_model_outputs("actions_for_env"))
    return actions


def _as(values: Any, space: gym.Space, name: str = "") -> Any:
    """Return values of many steps, nested as their space is and with its dtypes.

    Args:
        values: An array or a list, of Dict and Tuple spaces also nested, or on one level with names as `leaves` has.
        space: Of one step's value, or of the part `name` of it.
        name: As in `leaves`; "" for the whole.
    """
    if isinstance(space, gym.spaces.Dict):
        return {key: _as(values, part, f"{name}/{key}" if name else key) for key, part in space.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(_as(values, part, f"{name}/{i}" if name else str(i)) for i, part in enumerate(space))
    if name:
        values = [named_parts(v)[name] for v in values] if isinstance(values, list) else named_parts(values)[name]
    return list(np.asarray(values).astype(space.dtype))


def _spec(env: gym.Env) -> Any:
    """Return how to make the environment again, where that can be written down."""
    try:
        env.spec.to_json()  # type: ignore[union-attr]
    except Exception:  # an entry point that is a function, or no specification at all
        return None
    return env.spec
