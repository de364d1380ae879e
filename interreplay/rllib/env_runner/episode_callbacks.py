"""RLlib's callbacks on episodes, called only where somebody listens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from interreplay.rllib.env_runner.batching import pick

if TYPE_CHECKING:
    from interreplay.rllib.env_runner.runner import ColumnRunner

EVENTS = ("on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end")


class EpisodeHooks:
    """Builds `SingleAgentEpisode`s beside the columns, for callbacks and for `ColumnRunner.sample`.

    Args:
        runner: Whose environments are stepped.
    """

    def __init__(self, runner: ColumnRunner):
        self.runner = runner
        functions = [getattr(runner.config, f"callbacks_{event}", None) for event in EVENTS]
        overridden = [getattr(type(c), e) is not getattr(RLlibCallback, e) for c in runner._callbacks for e in EVENTS]
        self.listening = any(functions) or any(overridden)
        self.recording = False
        self.done: list[SingleAgentEpisode] = []

    @property
    def active(self) -> bool:
        return self.listening or self.recording

    def reset(self, which: np.ndarray, obs: Any, infos: Any) -> None:
        """New episodes in the environments `which` ``(n,)`` bool."""
        for i in np.flatnonzero(which):
            self.runner._new_episode(i)
            self.runner._ongoing_episodes[i].add_env_reset(observation=pick(obs, i), infos=infos[i])
            self.runner._make_on_episode_callback("on_episode_start", i, self.runner._ongoing_episodes)

    def step(self, live: np.ndarray, actions: np.ndarray, results: tuple[Any, ...]) -> None:
        """One step of the environments `live` ``(n,)`` bool."""
        obs, rewards, terminated, truncated, infos = results
        episodes = self.runner._ongoing_episodes
        for i in np.flatnonzero(live):
            episodes[i].add_env_step(
                observation=pick(obs, i),
                action=actions[i],
                reward=float(rewards[i]),
                infos=infos[i],
                terminated=bool(terminated[i]),
                truncated=bool(truncated[i]),
            )
            self.runner._make_on_episode_callback("on_episode_step", i, episodes)
            if terminated[i] or truncated[i]:
                self.runner._make_on_episode_callback("on_episode_end", i, episodes)
                if self.recording:
                    self.done.append(episodes[i].to_numpy())
