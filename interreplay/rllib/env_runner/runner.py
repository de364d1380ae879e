"""The runner: steps vectorized environments and returns columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from ray.rllib.env.env_runner import ENV_STEP_FAILURE
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.utils.annotations import override
from ray.rllib.utils.debug import update_global_seed_if_necessary
from torch.nn.functional import pad

from interreplay.acting.actions import Actions, actions_of
from interreplay.acting.batching import CPU, as_column, as_tensors, pick
from interreplay.errors import EnvironmentFailure
from interreplay.learning.exploration import Greedy
from interreplay.learning.policies import POLICY_OUTPUT
from interreplay.rllib.env_runner.episode_callbacks import EpisodeCallbacks
from interreplay.rllib.env_runner.episode_log import Names, columns_of_infos
from interreplay.rllib.env_runner.episode_sampling import SamplingRunner
from interreplay.rllib.env_runner.runner_state import RunnerState
from interreplay.rllib.env_runner.serial_vector_env import SerialEnvs
from interreplay.transitions import Transitions, cat, unchecked

RUNNER_STATE = "interreplay_runner"
GREEDY = Greedy()
ROWS_OF_EVALUATIONS = 8
"""The networks see a multiple of so many rows in evaluations: products of fewer rows are rounded in other ways, so that
actions would depend on the number of environments."""


class BatchEnvRunner(SamplingRunner):
    """RLlib's single-agent runner with another inside: no episode objects, no connectors, no metrics per step.

    `collect` is what training uses. `sample` gives RLlib's evaluation, and whoever else calls it, the same
    steps as episodes. Actions are kept as the policy made them, in [−1, 1] or as numbers from 0 on.
    """

    _device: torch.device

    def __init__(self, *, config: Any, **kwargs: Any):
        super().__init__(config=config, **kwargs)
        self._now = self._first_state()
        self._hooks = EpisodeCallbacks(self)
        self._scale = self._actions()
        self._cut: list[int] = []
        self._failure: EnvironmentFailure | None = None

    def _first_state(self, restarts: int | None = None) -> RunnerState:
        index = self.worker_index or 0
        return RunnerState.begin(self._seed, index, self.num_envs, self.config.exploration, self._device, restarts)

    def _actions(self) -> Actions | None:
        """Return the kind of actions; None in the learner's process where others sample: it has no environments."""
        return actions_of(self.env.single_action_space, self.config.normalize_actions) if self.env is not None else None

    @override(SamplingRunner)
    def _use_environments(self) -> None:
        self._now.resize(self.num_envs)
        self._scale = self._actions()

    def count_restart(self, before: int | None) -> int:
        """Tell this process how many came before it, if it is new, and return how often it was replaced by then.

        Seeds and episode ids of a process that replaced another are others than those of its predecessors.

        Args:
            before: Restarts that are known of, None for a runner that was never asked before.
        """
        if self._now.restarts is None:
            if before is None:
                self._now.restarts = 0
            else:
                self._now = self._first_state(before + 1)
                self._needs_initial_reset = True
                if self._seed is not None:  # an environment may draw from the global generators
                    update_global_seed_if_necessary(self.config.framework_str, self._now.env_seed)
        assert self._now.restarts is not None
        return self._now.restarts

    def use_module(self, module: Any, device: torch.device) -> None:
        """Act with `module`, which lies on `device` and is shared, not copied."""
        self.module = module
        if device != self._device:
            self._now.move(device)
            self._device = device

    def collect(
        self, num_timesteps: int, random_actions: bool = False, record: Names = (), progress: float | None = None
    ) -> Transitions:
        """Step all environments until at least `num_timesteps` transitions are made, exploring.

        Args:
            num_timesteps: Transitions to make, over all environments together.
            random_actions: Act uniformly at random.
            record: Names of columns to add: ``"behavior"``, the policy's `record`, ``"success"``, of which infos speak.
            progress: Of the run, from 0 to 1, for exploration with a schedule; None leaves it where it is.

        Returns:
            Columns in order of time, float64 as float32; fewer where the environment failed, and the next call raises.

        Raises:
            EnvironmentFailure: The environment raised an error, or gave what cannot be stored.
        """
        rounds: list[Transitions] = []
        self._recorded = frozenset(record)
        if progress is not None:
            self._now.exploration.anneal(progress)
        self._hooks.begin_sample()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        while sum(map(len, rounds)) < num_timesteps:
            try:
                rows = self._step(random_actions, self.config.explore)
            except EnvironmentFailure as failure:
                if not rounds:
                    raise
                self._failure = failure
                break
            if rows is not None:
                rounds.append(rows)
        self._hooks.end_sample()
        return rounds[0] if len(rounds) == 1 else cat(rounds)

    def seed_next_reset(self, seed: int) -> None:
        """Seed the environments at the next reset."""
        self._now.seed_next_reset(seed)

    def _reset(self) -> None:
        now = self._now
        obs, infos = self._try_env_reset(seed=self._seed_of_reset())
        self._cut += now.broken_off()
        now.seeded, self._needs_initial_reset = True, False
        now.obs = as_column(obs)
        self._begun = len(self._hooks.done)  # others were broken off
        begun = self._admitted(np.ones(self.num_envs, dtype=bool))
        now.over = ~begun
        self._start(begun, now.obs, infos)

    def _seed_of_reset(self) -> int | list[int] | None:
        """Return the seeds of a reset: those of the next episodes in evaluations, else of the first reset alone."""
        if self._seeds is None:
            return None if self._now.seeded else self._now.env_seed
        if not isinstance(self.env, SerialEnvs):  # another vector environment seeds its later episodes by itself
            return next(self._seeds)
        self.env.seeds = self._seeds
        return [next(self._seeds) for _ in range(self.num_envs)]

    @override(SamplingRunner)
    def _start(self, which: np.ndarray, obs: Any, infos: Any) -> None:
        self._now.log.start(which)
        self._now.exploration.start(which)
        if self._hooks.active:
            self._hooks.reset(which, obs, infos)

    @override(SamplingRunner)
    def _step(self, random_actions: bool, explore: bool) -> Transitions | None:
        """Step every environment; those whose episode was over begin another, if one is wanted, and give no row."""
        if self._needs_initial_reset:
            self._reset()
        assert self._scale is not None
        now = self._now
        actions, extras = self._act(random_actions, explore)
        results = self._try_env_step(self._scale.to_env(actions))
        if isinstance(results, str) and results == ENV_STEP_FAILURE:
            return None
        observed, rewards, terminated, truncated, infos = results
        after, live = as_column(observed), ~now.over
        over = terminated | truncated
        next_obs, ends = self._ends(after, infos, over) if self._resets_in_same_step and over.any() else (after, infos)
        if self._longest is not None and (long := live & ~over & (now.log.lengths + 1 >= self._longest)).any():
            truncated, over = truncated | long, over | long
            self._cut_long(long)
        now.log.step(live, rewards, over, ends)
        if self._hooks.active:
            self._hooks.step(live, now.obs, actions, (next_obs, rewards, terminated, truncated, ends))
        rows = None
        if live.any():
            extras |= columns_of_infos(self._recorded, ends)
            rows = self._rows(live, actions, (next_obs, *self._stored(ends, rewards, terminated), truncated), extras)
        now.obs = after
        now.over = self._begin_others(live, over, infos)
        return rows

    def _rows(
        self, live: np.ndarray, actions: np.ndarray, outcome: tuple[Any, ...], extras: dict[str, np.ndarray]
    ) -> Transitions:
        next_obs, rewards, terminated, truncated = outcome
        count = int(live.sum())
        self._now.steps_since_report += count
        self.num_env_steps_sampled_lifetime += count
        # Copies of arrays of one length and the right types: what the constructor would see to, at half its cost.
        return unchecked(
            obs=as_tensors(pick(self._now.obs, live), CPU),
            actions=torch.from_numpy(actions[live]),
            rewards=torch.from_numpy(np.asarray(rewards, dtype=np.float32)[live]),
            next_obs=as_tensors(pick(next_obs, live), CPU),
            terminated=torch.from_numpy(np.asarray(terminated, dtype=bool)[live]),
            truncated=torch.from_numpy(np.asarray(truncated, dtype=bool)[live]),
            episode=torch.from_numpy(self._now.log.ids[live]),
            extras={name: torch.from_numpy(column[live]) for name, column in extras.items()},
        )

    @torch.no_grad()
    def _act(self, random_actions: bool, explore: bool) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return actions as they are kept, and of the same network call what is recorded of the policy's output."""
        assert self._scale is not None
        now, policy, record = self._now, self.module.policy, POLICY_OUTPUT in self._recorded
        if random_actions:
            actions = self._scale.random(now.numpy_rng, self.num_envs)
            recorded = policy.record_random(self.num_envs) if record else {}
        else:
            obs = self._encoded()
            exploration = now.exploration if explore else GREEDY
            if self._seeds is not None and not explore:
                obs = pad(obs, (0, 0, 0, -len(obs) % ROWS_OF_EVALUATIONS))
            chosen, recorded = exploration.act_and_record(policy, obs, now.torch_rng, record)
            recorded = {name: column[: self.num_envs] for name, column in recorded.items()}
            actions = chosen[: self.num_envs].cpu().numpy().reshape(self.num_envs, *self._scale.shape)
        return actions, {name: column.cpu().numpy() for name, column in recorded.items()}

    @override(SingleAgentEnvRunner)
    def get_metrics(self) -> Any:
        finished = self._now.log.take_finished()
        if self._seeds is not None:
            finished.sort(key=lambda episode: episode.id)  # so that sums do not depend on the number of environments
        # Results are of the newest ones alone: RLlib keeps no more of them, and takes 70 µs for each.
        for episode in finished[-self.config.metrics_num_episodes_for_smoothing :]:
            self._log_episode_metrics(episode.length, episode.ret, episode.seconds)
            if episode.success is not None:
                self.metrics.log_value(
                    "success_rate", episode.success, window=self.config.metrics_num_episodes_for_smoothing
                )
        self._report_steps()
        self._increase_sampled_metrics(self._now.steps_since_report, len(finished))
        self._now.steps_since_report = 0
        return self.metrics.reduce()

    def running_episodes(self) -> list[int]:
        """Return the ids of the episodes that are stepped now."""
        return self._now.log.ids.tolist()

    def take_cut_episodes(self) -> list[int]:
        """Return ids of episodes that were broken off since the last call, by a resume or a failing environment."""
        cut, self._cut = self._cut, []
        return cut

    def state_dict(self) -> dict[str, Any]:
        """Return where this runner is; without its environments where one of them cannot be saved."""
        return self._now.state_dict(self.env, self._needs_initial_reset)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` gave; where environments were not saved, at the start of an episode."""
        self._needs_initial_reset = self._now.load_state_dict(state, self.env)
        if self.env is not None and len(self._now.over) != self.num_envs:
            self._cut += self._now.resize(self.num_envs)
        self._ongoing_episodes = [None] * self.num_envs

    @override(SingleAgentEnvRunner)
    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self.env is not None and self._check_component(RUNNER_STATE, components, not_components):
            state[RUNNER_STATE] = self.state_dict()
        return state

    @override(SingleAgentEnvRunner)
    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        mine = state.get(RUNNER_STATE)
        # RLlib gives runners that it restarted the whole state of the one in the learner's process.
        if mine is not None and self.env is not None and mine.get("index", self._now.index) == self._now.index:
            self.load_state_dict(mine)


ColumnRunner = BatchEnvRunner  # its name in checkpoints made before
