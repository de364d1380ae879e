"""Whole episodes as RLlib asks for them: for its evaluations, and for whoever else calls `sample`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.annotations import override
from torch import Tensor

from interreplay.acting.batching import as_tensors
from interreplay.rllib.env_runner.episode_callbacks import EpisodeCallbacks
from interreplay.rllib.env_runner.episode_seeds import EpisodeSeeds
from interreplay.rllib.env_runner.runner_state import RunnerState
from interreplay.rllib.env_runner.stepping import SteppingRunner, longest_episode
from interreplay.transitions import Transitions


class SamplingRunner(SteppingRunner):
    """A runner that steps its environments for episodes.

    Attributes:
        interrupted: Whether the last `sample` was ended by `interrupt`.
    """

    _ongoing_episodes: list[Any]
    _hooks: EpisodeCallbacks
    _now: RunnerState
    _device: torch.device

    def __init__(self, *, config: Any, **kwargs: Any):
        super().__init__(config=config, **kwargs)
        self.interrupted, self._recorded = False, frozenset[str]()
        self._goal: int | None = None
        self._begun = 0
        self._seeds = EpisodeSeeds(self._seed, self.worker_index or 0) if self.config.in_evaluation else None

    def _step(self, random_actions: bool, explore: bool) -> Transitions | None:
        """Make one step of every environment."""
        raise NotImplementedError

    def _start(self, which: np.ndarray, obs: Any, infos: Any) -> None:
        """Begin episodes in the environments `which` ``(n,)``."""
        raise NotImplementedError

    def _encoded(self) -> Tensor:
        """Return what the policy's layers see of the observations of now, ``(n, d)``."""
        return self.module.encode(as_tensors(self._now.obs, self._device))

    def _use_environments(self) -> None:
        """Set up what depends on environments that were made late."""
        raise NotImplementedError

    @override(SingleAgentEnvRunner)
    def sample(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
        random_actions: bool = False,
        force_reset: bool = False,
    ) -> list[SingleAgentEpisode]:
        """Return episodes: the first `num_episodes` that begin, or what `num_timesteps` give.

        RLlib's runner returns the first that end, of several environments the short ones. After `interrupt` this one
        returns none, and reports none.
        """
        if self.env is None:  # asked to evaluate where other processes sample
            self.make_env()
            self._use_environments()
            self._ongoing_episodes = [None] * self.num_envs
        explore = self.config.explore if explore is None else explore
        if force_reset or num_episodes is not None or not self._hooks.listening:
            self._needs_initial_reset = True
        self.interrupted, self._hooks.recording, self._recorded = False, True, frozenset()
        self._longest = longest_episode(self.env, self.config.evaluation_max_episode_steps)
        self._goal = num_episodes
        self._hooks.begin_sample()
        if self._seeds is not None:
            self._seeds.number = self._now.evaluated
        try:
            self._play(num_timesteps, num_episodes, random_actions, explore)
        finally:
            self._hooks.recording, self._longest, self._needs_initial_reset, self._goal = False, None, True, None
        if self.interrupted:
            self._now.log.take_finished()  # half an evaluation is none
            return []
        self._hooks.end_sample()
        self._now.evaluated += self._begun
        ongoing = [e for e in self._ongoing_episodes if e and len(e) and not e.is_done]
        return self._hooks.done + (ongoing if num_episodes is None else [])

    def _play(self, num_timesteps: int | None, num_episodes: int | None, random_actions: bool, explore: bool) -> None:
        """Step until so much is made, or until `interrupt`."""
        goal, made = num_episodes if num_episodes is not None else num_timesteps or self.num_envs, 0
        while made < goal and not self.interrupted:
            rows = self._step(random_actions, explore)
            made = len(self._hooks.done) if num_episodes is not None else made + (len(rows) if rows is not None else 0)

    def _admitted(self, due: np.ndarray) -> np.ndarray:
        """Return which of the environments `due` ``(n,)`` begin another episode: all, or what `sample` still wants."""
        begun = due if self._goal is None else due & (np.cumsum(due) <= self._goal - self._begun)
        self._begun += int(begun.sum())
        return begun

    def _begin_others(self, live: np.ndarray, over: np.ndarray, infos: Any) -> np.ndarray:
        """Begin episodes where one was over before this step ``(n,)``, or in it where environments reset at once.

        Returns:
            Environments ``(n,)`` that have none now.
        """
        due = ~live | over if self._resets_in_same_step else ~live
        if not due.any():
            return over
        begun = self._admitted(due)
        if begun.any():
            self._start(begun, self._now.obs, infos)
        return (over | due) & ~begun

    def interrupt(self) -> None:
        """Let a running `sample` return between two steps, with nothing; safe in signal handlers and threads."""
        self.interrupted = True
