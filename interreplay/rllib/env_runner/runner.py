"""The runner: steps vectorised environments and returns columns."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from ray.rllib.env.env_runner import ENV_STEP_FAILURE
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.annotations import override

from interreplay.learning.exploration import Greedy
from interreplay.rllib.env_runner import runner_state
from interreplay.rllib.env_runner.action_spaces import actions_of
from interreplay.rllib.env_runner.batching import as_column, as_tensors, concatenate, pick
from interreplay.rllib.env_runner.episode_callbacks import EpisodeHooks
from interreplay.rllib.env_runner.episode_log import EpisodeLog
from interreplay.rllib.env_runner.stepping import SteppingRunner
from interreplay.transitions import Transitions, unchecked

RUNNER_STATE = "interreplay_runner"
IDS_PER_RUNNER = 1 << 40
CPU = torch.device("cpu")
GREEDY = Greedy()


class ColumnRunner(SteppingRunner):
    """RLlib's single-agent runner with another inside: no episode objects, no connectors, no metrics per step.

    `collect` is what training uses. `sample` gives RLlib's evaluation, and whoever else calls it, the same
    steps as episodes. Actions are kept as the policy made them, in [−1, 1] or as numbers from 0 on.
    """

    _device: torch.device
    _ongoing_episodes: list[Any]

    def __init__(self, *, config: Any, **kwargs: Any):
        super().__init__(config=config, **kwargs)
        sequence = np.random.SeedSequence(self._seed, spawn_key=(self.worker_index or 0,))
        self._env_seed, torch_seed = (int(s) for s in sequence.generate_state(2, np.uint32))
        self._torch_rng = torch.Generator(device=self._device).manual_seed(torch_seed)
        self._numpy_rng = np.random.default_rng(sequence)
        self._hooks = EpisodeHooks(self)
        self._exploration = copy.deepcopy(config.exploration)
        self._obs: Any = None
        self._begin()
        self._seeded = False
        self._steps_since_report = 0
        self._cut: list[int] = []
        self._records_policy = False

    def _begin(self) -> None:
        """What depends on the environments; the runner in the learner's process has none where others sample."""
        self._log = EpisodeLog(self.num_envs, first=(self.worker_index or 0) * IDS_PER_RUNNER)
        self._scale = (
            actions_of(self.env.single_action_space, self.config.normalize_actions) if self.env is not None else None
        )
        self._over = np.zeros(self.num_envs, dtype=bool)

    def use_module(self, module: Any, device: torch.device) -> None:
        """Act with `module`, which lies on `device` and is shared, not copied."""
        self.module = module
        if device != self._device:
            self._torch_rng = torch.Generator(device=device).manual_seed(self._torch_rng.initial_seed())
            self._device = device

    # -- stepping ---------------------------------------------------------------------------------

    def collect(
        self,
        num_timesteps: int,
        random_actions: bool = False,
        record_policy_output: bool = False,
        progress: float | None = None,
    ) -> Transitions:
        """Step all environments until at least `num_timesteps` transitions are made, exploring.

        Args:
            num_timesteps: Transitions to make, over all environments together.
            random_actions: Act uniformly at random.
            record_policy_output: Add the columns that the policy's `record` gives, ``extras["behavior"]``.
            progress: Of the run, from 0 to 1, for exploration with a schedule; None leaves it where it is.

        Returns:
            Their columns in order of time, float32 where the environment gives float64.
        """
        rounds: list[Transitions] = []
        self._records_policy = record_policy_output
        if progress is not None:
            self._exploration.anneal(progress)
        while sum(map(len, rounds)) < num_timesteps:
            rows = self._step(random_actions, self.config.explore)
            if rows is not None:
                rounds.append(rows)
        return concatenate(rounds)

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
        """Episodes as RLlib's runner returns them: `num_episodes` whole ones, or what `num_timesteps` give."""
        if self.env is None:  # asked to evaluate where other processes sample
            self.make_env()
            self._begin()
            self._ongoing_episodes = [None] * self.num_envs
        explore = self.config.explore if explore is None else explore
        if force_reset or num_episodes is not None or not self._hooks.listening:
            self._needs_initial_reset = True
        self._hooks.recording, self._hooks.done, self._records_policy = True, [], False
        goal = num_episodes if num_episodes is not None else num_timesteps or self.num_envs
        made = 0
        while made < goal:
            rows = self._step(random_actions, explore)
            made = len(self._hooks.done) if num_episodes is not None else made + (len(rows) if rows is not None else 0)
        ongoing = (
            [] if num_episodes is not None else [e for e in self._ongoing_episodes if e and len(e) and not e.is_done]
        )
        self._hooks.recording = False
        self._needs_initial_reset = True
        return self._hooks.done + ongoing

    def _reset(self) -> None:
        obs, infos = self._try_env_reset(seed=None if self._seeded else self._env_seed)
        self._cut += [int(i) for i in self._log.ids[(self._log.lengths > 0) & ~self._over]]
        self._seeded, self._needs_initial_reset = True, False
        self._obs = as_column(obs)
        self._over = np.zeros(self.num_envs, dtype=bool)
        self._start(~self._over, self._obs, infos)

    def _start(self, which: np.ndarray, obs: Any, infos: Any) -> None:
        """Episodes begin in the environments `which` ``(environments,)``."""
        self._log.start(which)
        self._exploration.start(which)
        if self._hooks.active:
            self._hooks.reset(which, obs, infos)

    def _step(self, random_actions: bool, explore: bool) -> Transitions | None:
        """One step of every environment; those whose episode was over begin a new one and give no row."""
        if self._needs_initial_reset:
            self._reset()
        assert self._scale is not None
        actions, extras = self._act(random_actions, explore)
        results = self._try_env_step(self._scale.to_env(actions))
        if isinstance(results, str) and results == ENV_STEP_FAILURE:
            self._needs_initial_reset = True
            return None
        observed, rewards, terminated, truncated, infos = results
        next_obs, live = as_column(observed), ~self._over
        self._log.step(live, rewards, terminated | truncated, infos)
        if self._hooks.active:
            self._hooks.step(live, actions, (next_obs, rewards, terminated, truncated, infos))
        rows = None
        if live.any():
            rows = self._rows(live, actions, (next_obs, rewards, terminated, truncated), extras)
        if not live.all():
            self._start(~live, next_obs, infos)
        self._obs, self._over = next_obs, (terminated | truncated) & live
        return rows

    def _rows(
        self, live: np.ndarray, actions: np.ndarray, outcome: tuple[Any, ...], extras: dict[str, np.ndarray]
    ) -> Transitions:
        next_obs, rewards, terminated, truncated = outcome
        count = int(live.sum())
        self._steps_since_report += count
        self.num_env_steps_sampled_lifetime += count
        # Copies of arrays of one length and the right types: what the constructor would see to, at half its cost.
        return unchecked(
            obs=as_tensors(pick(self._obs, live), CPU),
            actions=torch.from_numpy(actions[live]),
            rewards=torch.from_numpy(np.asarray(rewards, dtype=np.float32)[live]),
            next_obs=as_tensors(pick(next_obs, live), CPU),
            terminated=torch.from_numpy(np.asarray(terminated, dtype=bool)[live]),
            truncated=torch.from_numpy(np.asarray(truncated, dtype=bool)[live]),
            episode=torch.from_numpy(self._log.ids[live]),
            extras={name: torch.from_numpy(column[live]) for name, column in extras.items()},
        )

    @torch.no_grad()
    def _act(self, random_actions: bool, explore: bool) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return actions as they are kept, and of the same network call what is recorded of the policy's output."""
        assert self._scale is not None
        policy = self.module.policy
        recorded: dict[str, torch.Tensor] = {}
        if random_actions:
            actions = self._scale.random(self._numpy_rng, self.num_envs)
            recorded = policy.record_random(self.num_envs) if self._records_policy else {}
        else:
            obs = self.module.encode(as_tensors(self._obs, self._device))
            exploration = self._exploration if explore else GREEDY
            if self._records_policy:
                chosen, recorded = exploration.act_and_record(policy, obs, self._torch_rng)
            else:
                chosen = exploration.act(policy, obs, self._torch_rng)
            actions = chosen.cpu().numpy().reshape(self.num_envs, *self._scale.shape)
        return actions, {name: column.cpu().numpy() for name, column in recorded.items()}

    # -- metrics ----------------------------------------------------------------------------------

    @override(SingleAgentEnvRunner)
    def get_metrics(self) -> Any:
        finished = self._log.take_finished()
        for episode in finished:
            self._log_episode_metrics(episode.length, episode.ret, episode.seconds)
            if episode.success is not None:
                self.metrics.log_value(
                    "success_rate", episode.success, window=self.config.metrics_num_episodes_for_smoothing
                )
        self._report_steps()
        self._increase_sampled_metrics(self._steps_since_report, len(finished))
        self._steps_since_report = 0
        return self.metrics.reduce()

    # -- state ------------------------------------------------------------------------------------

    def take_cut_episodes(self) -> list[int]:
        """Ids of episodes that were broken off since the last call, by a resume or a failing environment."""
        cut, self._cut = self._cut, []
        return cut

    @override(SingleAgentEnvRunner)
    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self.env is not None and self._check_component(RUNNER_STATE, components, not_components):
            state[RUNNER_STATE] = runner_state.save(self)
        return state

    @override(SingleAgentEnvRunner)
    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        if RUNNER_STATE in state and self.env is not None:
            runner_state.load(self, state[RUNNER_STATE])
