"""RLlib's callbacks on episodes and samples, called only if the user defines some."""

from __future__ import annotations

from typing import Any

import numpy as np
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.callbacks.utils import make_callback
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from interreplay.transitions import pick

EVENTS = ("on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end", "on_sample_end")
MOST_STEPS = 1_000
"""Steps of a running episode from which on all but the last ones are dropped between two samples."""


class LongEpisode(SingleAgentEpisode):
    """An episode whose first steps were dropped. Its length, return and duration include them; its columns do not.

    Indices of slices count from the beginning of the episode.

    Attributes:
        dropped_return: Sum of the dropped rewards.
    """

    __slots__ = ("dropped_return",)
    dropped_return: float

    @classmethod
    def continuing(cls, episode: SingleAgentEpisode, lookback: int) -> LongEpisode:
        """Return the continuation of an episode with its last `lookback` steps, as `SingleAgentEpisode.cut` does."""
        kept = _copy_as(SingleAgentEpisode, episode)
        kept._custom_data = {}  # `cut` would copy the user's data
        made = _copy_as(cls, kept.cut(len_lookback_buffer=lookback))
        made.dropped_return = episode.get_return()
        made._custom_data = episode._custom_data
        made._start_time = episode._start_time
        made._last_step_time = episode._last_step_time
        return made

    def __len__(self) -> int:
        return self.t

    def get_return(self) -> float:
        return self.dropped_return + super().get_return()

    def get_data_dict(self) -> dict[str, Any]:
        return _copy_as(SingleAgentEpisode, self).get_data_dict()

    def slice(self, slice_: slice, **options: Any) -> SingleAgentEpisode:
        first, stop, step = slice_.indices(self.t)
        kept = slice(max(first - self.t_started, 0), max(stop - self.t_started, 0), step)
        return _copy_as(SingleAgentEpisode, self).slice(kept, **options)


def _copy_as(kind: Any, episode: SingleAgentEpisode) -> Any:
    """Return an episode of class `kind` that shares the columns of another one."""
    made = kind.__new__(kind)
    for name in SingleAgentEpisode.__slots__:
        setattr(made, name, getattr(episode, name))
    return made


class EpisodeCallbacks:
    """Builds `SingleAgentEpisode`s in addition to the columns, for callbacks and for `BatchEnvRunner.sample`.

    Running episodes of more than `MOST_STEPS` steps become `LongEpisode`s between two samples of training.

    Attributes:
        listening: Whether there is a callback of any kind.
        recording: Whether ended episodes are kept in `done`.
    """

    def __init__(self, runner: SingleAgentEnvRunner):
        self.runner: Any = runner
        self.listening = any(map(self._is_defined, EVENTS))
        self._samples_have_callbacks = self._is_defined("on_sample_end")
        self.recording = False
        self.done: list[SingleAgentEpisode] = []
        self._lengths: dict[str, int] = {}

    def _is_defined(self, event: str) -> bool:
        for callbacks in self.runner._callbacks:
            if getattr(type(callbacks), event) is not getattr(RLlibCallback, event):
                return True
        return bool(getattr(self.runner.config, f"callbacks_{event}", None))

    def reset(self, which: np.ndarray, obs: Any, infos: Any) -> None:
        """Begin episodes in the environments `which` ``(n,)`` bool."""
        for i in np.flatnonzero(which):
            self._begin(i, pick(obs, i), infos[i])

    def _begin(self, i: Any, obs: Any, info: Any) -> None:
        self.runner._new_episode(i)
        self.runner._ongoing_episodes[i].add_env_reset(observation=obs, infos=info)
        self.runner._make_on_episode_callback("on_episode_start", i, self.runner._ongoing_episodes)

    def step(self, live: np.ndarray, obs: Any, actions: np.ndarray, results: tuple[Any, ...]) -> None:
        """Add one step, from `obs`, of the environments `live` ``(n,)`` bool."""
        next_obs, rewards, terminated, truncated, infos = results
        episodes = self.runner._ongoing_episodes
        for i in np.flatnonzero(live):
            if episodes[i] is None:  # restored in the middle of an episode; its beginning was not stored
                self._begin(i, pick(obs, i), {})
            episodes[i].add_env_step(
                observation=pick(next_obs, i),
                action=actions[i],
                reward=float(rewards[i]),
                infos=infos[i],
                terminated=bool(terminated[i]),
                truncated=bool(truncated[i]),
            )
            self.runner._make_on_episode_callback("on_episode_step", i, episodes)
            if terminated[i] or truncated[i]:
                self.runner._make_on_episode_callback("on_episode_end", i, episodes)
                if self.recording or self._samples_have_callbacks:
                    self.done.append(episodes[i].to_numpy())

    def running(self) -> list[SingleAgentEpisode]:
        """Return the episodes that are not done."""
        found = []
        for episode in self.runner._ongoing_episodes:
            if episode is not None and not episode.is_done:
                found.append(episode)
        return found

    def begin_sample(self) -> None:
        """Record the lengths of the running episodes when a sample begins."""
        self.done = []
        self._lengths = {}
        for episode in self.runner._ongoing_episodes:
            if episode is not None:
                self._lengths[episode.id_] = len(episode)

    def end_sample(self) -> None:
        """Call ``on_sample_end`` with the steps that each episode gained since `begin_sample`."""
        if not self._samples_have_callbacks:
            return
        samples = []
        for episode in self.done + self.running():
            begin = self._lengths.get(episode.id_, 0)
            if len(episode) > begin:
                samples.append(episode[begin:])
        make_callback(
            "on_sample_end",
            callbacks_objects=self.runner._callbacks,
            callbacks_functions=self.runner.config.callbacks_on_sample_end,
            kwargs={
                "env_runner": self.runner,
                "metrics_logger": self.runner.metrics,
                "samples": samples,
            },
        )

    def drop_old_steps(self) -> None:
        """Drop the steps of long running episodes, except those that RLlib keeps too (`episode_lookback_horizon`)."""
        lookback = self.runner.config.episode_lookback_horizon
        episodes = self.runner._ongoing_episodes
        for i, episode in enumerate(episodes):
            if episode is not None and not episode.is_done and episode.t - episode.t_started > MOST_STEPS:
                episodes[i] = LongEpisode.continuing(episode, lookback)
