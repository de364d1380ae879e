"""The runner: it steps vectorized environments and returns columns."""

from __future__ import annotations

import copy
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.annotations import override
from ray.rllib.utils.debug import update_global_seed_if_necessary
from ray.rllib.utils.metrics import ENV_STEP_TIMER
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
from ray.rllib.utils.metrics.stats.mean import MeanStats
from torch import Tensor
from torch.nn.functional import pad

from interreplay.diagnostics.episode_table import EPISODE_RETURN
from interreplay.environments.actions import Actions, make_actions
from interreplay.environments.spaces import as_column
from interreplay.errors import EnvironmentFailure, NonFiniteError
from interreplay.learning.exploration import Greedy
from interreplay.learning.policies import POLICY_OUTPUT
from interreplay.rllib.env_runner.episode_callbacks import EpisodeCallbacks
from interreplay.rllib.env_runner.remote import CollectionResult, Collector
from interreplay.rllib.env_runner.runner_state import (
    IDS_PER_RUNNER,
    EpisodeLog,
    Names,
    RunnerState,
    chain,
    environments,
    read_infos,
)
from interreplay.rllib.env_runner.stepping import SerialEnvs, SteppingRunner, has_time_limit
from interreplay.rllib.host import quick_start
from interreplay.storage.columns import check_finite
from interreplay.transitions import Transitions, as_tensors, cat, observation_parts, pick, unchecked

RUNNER_STATE = "interreplay_runner"
GREEDY = Greedy()
ROWS_OF_EVALUATIONS = 8
"""In evaluations, the networks' batches are padded to a multiple of this number. Products of fewer rows are rounded
differently, so that actions would depend on the number of environments."""
STEPS_OF_ENDLESS_EPISODES = 10_000
"""Limit of the episodes of an evaluation if the environment has no time limit and none is configured."""
EVALUATION = 1 << 20
"""Part of the key of evaluation seeds, larger than any runner's index."""


def generate_episode_seeds(entropy: Any, index: int, first: int) -> Iterator[int]:
    """Yield the seeds of evaluation episodes from number `first` on, independent of the number of environments."""
    for number in itertools.count(first):
        sequence = np.random.SeedSequence(entropy, spawn_key=(EVALUATION, index, number))
        yield int(sequence.generate_state(1)[0])


class MeanOfValues(MeanStats):
    """A mean that is sent with its values, so that the mean over several runners weights all values equally.

    RLlib averages the means of runners, so that a runner with one episode counts as much as one with ten.
    """

    @override(MeanStats)
    def reduce(self, compile: bool = True) -> Any:
        values = list(self.values)
        reduced = super().reduce(compile)
        if values and not compile:
            reduced.values = values
        return reduced


class BatchEnvRunner(SteppingRunner):
    """RLlib's single-agent runner without episode objects, connectors and metrics per step.

    Training uses `collect`. RLlib's evaluation and other callers use `sample`, which returns the same steps as
    episodes. Actions are stored as the policy returns them, in [−1, 1] or as numbers from 0 on.

    Attributes:
        interrupted: Whether the last `sample` was interrupted. If it is set while `sample` is running, also by signal
            handlers and other threads, `sample` ends between two steps and returns no episode.
    """

    _device: torch.device
    _ongoing_episodes: list[Any]

    def __init__(self, *, config: Any, **kwargs: Any):
        with quick_start():  # also in other processes
            super().__init__(config=config, **kwargs)
        lookup: Any = self.metrics.stats_cls_lookup
        if lookup["mean"] is MeanStats:
            self.metrics.stats_cls_lookup = {**lookup, "mean": MeanOfValues}
        self.interrupted = False
        self._recorded = frozenset[str]()
        self._episode_goal: int | None = None
        self._begun = 0
        self._finished_before = 0
        self._entropy = np.random.SeedSequence(self._seed).entropy
        self._seeds: Iterator[int] | None = None  # of evaluation episodes
        if self.config.in_evaluation:
            self._seeds = generate_episode_seeds(self._entropy, self.worker_index or 0, first=0)
        self._state = self._first_state()
        self._hooks = EpisodeCallbacks(self)
        self._scale = self._get_actions()
        self._cut: list[int] = []
        self._failure: EnvironmentFailure | None = None

    def _first_state(self, env_steps: int = 0, offset: int = 0) -> RunnerState:
        """Return the state before the first step, with seeds and episode ids of this runner.

        The runner `offset` before this one has the same random stream. A runner that begins after `env_steps` env steps
        of the run has other seeds and ids.
        """
        index = self.worker_index or 0
        seed = None if self._seed is None else self._seed - offset  # RLlib adds the index to the seed
        key = (index - offset, env_steps) if env_steps else (index - offset,)
        sequence = np.random.SeedSequence(seed, spawn_key=key)
        env_seed, torch_seed = sequence.generate_state(2, np.uint32).tolist()
        return RunnerState(
            index=index,
            env_seed=env_seed,
            torch_rng=torch.Generator(device=self._device).manual_seed(torch_seed),
            numpy_rng=np.random.default_rng(sequence),
            exploration=copy.deepcopy(self.config.exploration),
            log=EpisodeLog(self.num_envs, first=index * IDS_PER_RUNNER + env_steps),
            over=np.zeros(self.num_envs, dtype=bool),
        )

    def _get_actions(self) -> Actions | None:
        """Return the kind of actions; None without environments, as in the learner's process next to remote runners."""
        if self.env is None:
            return None
        return make_actions(self.env.single_action_space, self.config.normalize_actions)

    def begin_new(self, env_steps: int) -> None:
        """Begin with seeds and episode ids that no process used before `env_steps` env steps of the run."""
        self._state = self._first_state(env_steps)
        self._needs_initial_reset = True
        if self._seed is not None:  # an environment may use the global generators
            update_global_seed_if_necessary(self.config.framework_str, self._state.env_seed)

    def use_module(self, module: Any, device: torch.device) -> None:
        """Act with `module`, which is on `device` and is shared, not copied."""
        self.module = module
        if device != self._device:
            seed = self._state.torch_rng.initial_seed()
            self._state.torch_rng = torch.Generator(device=device).manual_seed(seed)
            self._device = device

    def collect(
        self, num_timesteps: int, random_actions: bool = False, record: Names = (), progress: float | None = None
    ) -> Transitions:
        """Step all environments until at least `num_timesteps` transitions are made, exploring.

        Args:
            num_timesteps: Number of transitions, over all environments together.
            random_actions: Act uniformly at random.
            record: Names of columns to add: ``"behavior"``, the policy's `record`, and ``"success"``, from infos.
            progress: Progress of the run, from 0 to 1, for exploration schedules; None leaves it unchanged.

        Returns:
            Columns in order of time, float64 as float32; fewer if the environment failed, and the next call raises.

        Raises:
            EnvironmentFailure: The environment raised an error, or returned values that cannot be stored.
        """
        self._recorded = frozenset(record)
        if progress is not None:
            self.anneal(progress)
        self._raise_postponed_failure()
        rounds: list[Transitions] = []
        made = 0
        with self._whole_fragment():
            while made < num_timesteps:
                try:
                    rows = self._step(random_actions, self.config.explore)
                except EnvironmentFailure as failure:
                    if not rounds:
                        raise
                    self._failure = failure
                    break
                if rows is not None:
                    rounds.append(rows)
                    made += len(rows)
        return rounds[0] if len(rounds) == 1 else cat(rounds)

    @contextmanager
    def _whole_fragment(self) -> Iterator[None]:
        """Call the callbacks on samples around a fragment of training.

        After an error of a callback or of the environment's first step, or after Ctrl-C, the steps of the fragment are
        neither returned nor counted, and the next step begins new episodes.
        """
        running = self._state.interrupted()
        try:
            with self._discard_after_errors():
                if self._builds_episodes:
                    self._hooks.begin_sample()
                yield
                if self._builds_episodes:
                    self._hooks.end_sample()
                    self._hooks.drop_old_steps()
        except BaseException:
            self._needs_initial_reset = True
            self._cut += running
            raise

    @contextmanager
    def _discard_after_errors(self) -> Iterator[None]:
        """Remove the steps and the finished episodes of this context from the next report if an error ends it."""
        unreported = self._state.steps_since_report
        finished = len(self._state.log.finished)
        try:
            yield
        except BaseException:
            self.num_env_steps_sampled_lifetime -= self._state.steps_since_report - unreported
            self._state.steps_since_report = unreported
            del self._state.log.finished[finished:]
            raise

    @contextmanager
    def evaluating(self, config: Any) -> Iterator[None]:
        """Evaluate in the environments of training, with the configuration of evaluations and separate metrics."""
        self._make_missing_env()
        training = {"config": self.config, "metrics": self.metrics}
        finished = self._state.log.take_finished()
        unreported = self._state.steps_since_report
        self._state.steps_since_report = 0
        self.config = config
        self.metrics = MetricsLogger(stats_cls_lookup=training["metrics"].stats_cls_lookup, root=False)
        try:
            yield
        finally:
            vars(self).update(training)
            self._state.log.finished = finished
            self._state.steps_since_report = unreported

    def anneal(self, progress: float) -> None:
        """Set the schedule of exploration to the progress of the run, from 0 to 1."""
        self._state.exploration.anneal(progress)

    @property
    def _builds_episodes(self) -> bool:
        return self._hooks.listening or self._hooks.recording

    def _raise_postponed_failure(self) -> None:
        """Raise the failure of the last call; its earlier rows were returned first."""
        failure = self._failure
        self._failure = None
        if failure is not None:
            raise failure

    @override(SingleAgentEnvRunner)
    def sample(  # type: ignore[override]  # RLlib's contract is (**kwargs)
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
        force_reset: bool = False,
        keep_episodes: bool = True,
    ) -> list[SingleAgentEpisode]:
        """Return the first `num_episodes` that begin, or the episodes of `num_timesteps`.

        RLlib's runner returns the first episodes that end, which favors short ones. If it is `interrupted`, this runner
        returns and reports no episode. Evaluations do not `keep_episodes`, whose observations and infos can exceed the
        memory, and read only the metrics; then episodes are only built for callbacks.
        """
        self._make_missing_env()
        if force_reset or num_episodes is not None or not self._hooks.listening:
            self._needs_initial_reset = True
        self.interrupted = False
        self._hooks.recording = keep_episodes
        self._recorded = frozenset()
        self._episode_goal = num_episodes
        self._max_episode_steps = self.config.evaluation_max_episode_steps
        if self._max_episode_steps is None and not has_time_limit(self.env):
            self._max_episode_steps = STEPS_OF_ENDLESS_EPISODES
        self._hooks.begin_sample()
        if self._seeds is not None:
            self._seeds = generate_episode_seeds(self._entropy, self._state.index, first=self._state.evaluated)
        if explore is None:
            explore = self.config.explore
        self._begun = 0
        self._finished_before = len(self._state.log.finished)
        try:
            with self._discard_after_errors():
                self._play(num_timesteps, num_episodes, explore)
        finally:
            self._hooks.recording = False
            self._max_episode_steps = None
            self._needs_initial_reset = True
            self._episode_goal = None
        if self.interrupted:
            self._state.log.take_finished()  # an incomplete evaluation is not reported
            return []
        self._hooks.end_sample()
        self._state.evaluated += self._begun
        if num_episodes is not None:
            return self._hooks.done
        return self._hooks.done + list(filter(len, self._hooks.running()))

    def _make_missing_env(self) -> None:
        """Create the environments of a runner without them: an evaluation in the process next to remote runners."""
        if self.env is None:
            self.make_env()
            self._state.resize(self.num_envs)
            self._scale = self._get_actions()
            self._ongoing_episodes = [None] * self.num_envs

    def _play(self, num_timesteps: int | None, num_episodes: int | None, explore: bool) -> None:
        """Step until the requested number of steps or episodes is reached, or until it is `interrupted`."""
        made = 0
        while not self.interrupted:
            if num_episodes is not None and self._count_finished() >= num_episodes:
                break
            if num_episodes is None and made >= (num_timesteps or self.num_envs):
                break
            rows = self._step(random_actions=False, explore=explore)
            if rows is not None:
                self._check_evaluated(rows)
                made += len(rows)

    def _check_evaluated(self, rows: Transitions) -> None:
        """Raise NonFiniteError for NaN or infinity in an evaluation; RLlib's mean returns would leave NaN out."""
        try:
            check_finite(rows.columns())
        except NonFiniteError as error:
            place = f"a step of an evaluation of {self.env_name}"
            raise NonFiniteError(error.column, error.row, error.value, at=place) from None

    def _count_finished(self) -> int:
        return len(self._state.log.finished) - self._finished_before

    def seed_next_reset(self, seed: int) -> None:
        """Seed the environments at the next reset."""
        self._state.seed_next_reset(seed)

    def _reset(self) -> None:
        state = self._state
        seed: int | list[int] | None = None  # only the first reset is seeded, except in evaluations
        if self._seeds is None and not state.seeded:
            seed = state.env_seed
        elif self._seeds is not None and isinstance(self.env, SerialEnvs):
            self.env.seeds = self._seeds
            seed = [next(self._seeds) for _ in range(self.num_envs)]
        elif self._seeds is not None:  # other vector environments seed their later episodes themselves
            seed = next(self._seeds)
        obs, infos = self._try_env_reset(seed=seed)
        self._cut += [episode for episode in state.interrupted() if episode not in self._cut]
        state.seeded = True
        self._needs_initial_reset = False
        state.obs = self._observe(obs)
        self._begun = self._count_finished()  # the other episodes were interrupted
        begun = self._admit(np.ones(self.num_envs, dtype=bool))
        state.over = ~begun
        self._start(begun, state.obs, infos)

    def _observe(self, observation: Any) -> Any:
        """Return observations as columns. Other vector environments than `SerialEnvs` may reuse their arrays."""
        if not isinstance(self.env, SerialEnvs):
            observation = copy.deepcopy(observation)
        return as_column(observation)

    def _start(self, which: np.ndarray, obs: Any, infos: Any) -> None:
        self._state.log.start(which)
        self._state.exploration.start(which)
        if self._builds_episodes:
            self._hooks.reset(which, obs, infos)

    def _admit(self, due: np.ndarray) -> np.ndarray:
        """Return which of the environments `due` ``(n,)`` begin another episode: all, or the number still requested."""
        begun = due
        if self._episode_goal is not None:
            begun = due & (np.cumsum(due) <= self._episode_goal - self._begun)
        self._begun += int(begun.sum())
        return begun

    def _step(self, random_actions: bool, explore: bool) -> Transitions | None:
        """Step every environment; after the end of an episode an environment begins another one and returns no row."""
        if self._needs_initial_reset:
            self._reset()
        assert self._scale is not None
        state = self._state
        actions, extras = self._act(random_actions, explore)
        try:
            results = self._try_env_step(self._scale.to_env(actions))
        except EnvironmentFailure as failure:  # often because the policy's action is NaN, too
            self._explain(failure)
            raise
        observed, rewards, terminated, truncated, infos = results
        next_obs = self._observe(observed)
        live = ~state.over
        over = terminated | truncated
        if self._max_episode_steps is not None:
            long = live & ~over & (state.log.lengths + 1 >= self._max_episode_steps)
            if long.any():
                truncated = truncated | long
                over = over | long
                self._cut_long(long)
        state.log.step(live, rewards, over, infos)
        if self._builds_episodes:
            self._hooks.step(live, state.obs, actions, (next_obs, rewards, terminated, truncated, infos))
        rows = None
        if live.any():
            extras |= read_infos(self._recorded, infos)
            if EPISODE_RETURN in self._recorded:
                extras |= state.log.columns(over)
            stored_rewards, stored_ends = self._select_stored(infos, rewards, terminated)
            count = int(live.sum())
            state.steps_since_report += count
            self.num_env_steps_sampled_lifetime += count
            rows = self._rows(live, actions, (next_obs, stored_rewards, stored_ends, truncated), extras)
        state.obs = next_obs
        if not live.all():
            begun = self._admit(~live)
            if begun.any():
                self._start(begun, next_obs, infos)
            over = (over | ~live) & ~begun
        state.over = over
        return rows

    def _explain(self, failure: EnvironmentFailure) -> None:
        """Raise a failure that states which value the observations before it contained, if one is not finite."""
        try:
            check_finite(observation_parts(as_tensors(self._state.obs)))
        except NonFiniteError as error:
            text = f"{failure.cause_text} after an observation with {error.value}"
            raise EnvironmentFailure(failure.env, text, failure.at) from failure.__cause__

    def _rows(
        self, live: np.ndarray, actions: np.ndarray, outcome: tuple[Any, ...], extras: dict[str, np.ndarray]
    ) -> Transitions | None:
        next_obs, rewards, terminated, truncated = outcome
        # These are copies of arrays of one length and the right types; the constructor's checks would double the cost.
        return unchecked(
            obs=as_tensors(pick(self._state.obs, live)),
            actions=torch.from_numpy(actions[live]),
            rewards=torch.from_numpy(np.asarray(rewards, dtype=np.float32)[live]),
            next_obs=as_tensors(pick(next_obs, live)),
            terminated=torch.from_numpy(np.asarray(terminated, dtype=bool)[live]),
            truncated=torch.from_numpy(np.asarray(truncated, dtype=bool)[live]),
            episode=torch.from_numpy(self._state.log.ids[live]),
            extras={name: torch.from_numpy(column[live]) for name, column in extras.items()},
        )

    def _encode(self) -> Tensor:
        """Return the current observations, encoded for the policy, ``(n, d)``."""
        return self.module.encode(as_tensors(self._state.obs, self._device))

    @torch.no_grad()
    def _act(self, random_actions: bool, explore: bool) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return actions as they are stored, and the requested columns of the policy's output."""
        assert self._scale is not None
        policy = self.module.policy
        record = POLICY_OUTPUT in self._recorded
        recorded: dict[str, Tensor] = {}
        if random_actions:
            actions = self._scale.random(self._state.numpy_rng, self.num_envs)
            if record:
                recorded = policy.record_random(self.num_envs)
        else:
            obs = self._encode()
            exploration = self._state.exploration if explore else GREEDY
            if self._seeds is not None and not explore:
                obs = pad(obs, (0, 0, 0, -len(obs) % ROWS_OF_EVALUATIONS))
            chosen, recorded = exploration.act_and_record(policy, obs, self._state.torch_rng, record)
            actions = chosen[: self.num_envs].cpu().numpy().reshape(self.num_envs, *self._scale.shape)
        return actions, {name: column[: self.num_envs].cpu().numpy() for name, column in recorded.items()}

    @override(SingleAgentEnvRunner)
    def get_metrics(self) -> Any:
        # RLlib's window of returns, so that all runners together report the number of episodes that is configured.
        runners = self.config.num_env_runners or 1
        window = max(1, math.ceil(self.config.metrics_num_episodes_for_smoothing / runners))
        finished = self._state.log.take_finished()
        if self._seeds is not None:
            finished.sort(key=lambda episode: episode.id)  # so that sums do not depend on the number of environments
        # Only the newest episodes: RLlib keeps no more of them, and each takes 70 µs.
        for episode in finished[-window:]:
            self._log_episode_metrics(episode.length, episode.ret, episode.seconds)
            if episode.success is not None:
                self.metrics.log_value("success_rate", episode.success, window=window)
        if self._timed_steps:
            self.metrics.log_value(ENV_STEP_TIMER, self._step_seconds / self._timed_steps)
        self._step_seconds = 0.0
        self._timed_steps = 0
        self._increase_sampled_metrics(self._state.steps_since_report, len(finished))
        self._state.steps_since_report = 0
        return self.metrics.reduce()

    def begin_after(self, recovered: Mapping[int, int]) -> None:
        """Begin new episodes, with ids after those of recovered rows, and count these rows as steps.

        Args:
            recovered: Number of recovered rows by episode id, of all runners.
        """
        first = self._state.index * IDS_PER_RUNNER
        own = {}
        for episode, rows in recovered.items():
            if first <= episode < first + IDS_PER_RUNNER:
                own[episode] = rows
        self._needs_initial_reset = True
        self._state.log.next_id = max(self._state.log.next_id, max(own, default=-1) + 1)
        self._state.steps_since_report += sum(own.values())
        self.num_env_steps_sampled_lifetime += sum(own.values())

    def reseed(self, seed: int) -> None:
        """Replace the random numbers of exploration and of environments, which continue their episodes."""
        sequence = np.random.SeedSequence([seed, self._state.index])
        torch_seed, env_seed = sequence.generate_state(2).tolist()
        self._state.torch_rng.manual_seed(torch_seed)
        self._state.numpy_rng = np.random.default_rng(sequence)
        self._state.seed_next_reset(env_seed)
        if self.env is None:
            return
        for number, env in enumerate(environments(self.env)):
            for layer in chain(env):
                if isinstance(vars(layer).get("_np_random"), np.random.Generator):
                    layer.np_random = np.random.default_rng([env_seed, number])

    def take_cut_episodes(self) -> list[int]:
        """Return the ids of episodes that a reset or a resume has interrupted since the last call."""
        cut = self._cut
        self._cut = []
        return cut

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this runner, without its environments if one of them cannot be saved."""
        state = self._state.state_dict(self.env, self._needs_initial_reset)
        return state | {"env": self.env_name, "env_config": self._env_config_as_text()}

    def _env_config_as_text(self) -> str:
        """Return ``env_config`` for comparisons between processes; values that are not plain count by their classes."""
        text = json.dumps(self.config.env_config, default=lambda value: type(value).__name__, skipkeys=True)
        return json.dumps(json.loads(text), sort_keys=True)  # numbers and texts as keys could not be sorted

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`; at the start of an episode if the environments were not saved or differ."""
        own = {"env": self.env_name, "env_config": self._env_config_as_text()}
        if any(state.get(name, value) != value for name, value in own.items()):
            state = state | {"envs": None}  # saved attributes would replace those of another environment
        self._needs_initial_reset = self._state.load_state_dict(state, self.env)
        if self.env is not None and len(self._state.over) != self.num_envs:
            self._cut += self._state.resize(self.num_envs)
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
        own = state.get(RUNNER_STATE)
        # RLlib sends a restarted runner the whole state of the runner in the learner's process.
        if own is not None and self.env is not None and own["index"] == self._state.index:
            self.load_state_dict(own)


class LocalCollector(Collector):
    """Collects from the runner in the learner's process; its state is part of RLlib's state."""

    def __init__(self, runner: BatchEnvRunner, learner: Any):
        self._runner = runner
        self._learner = learner

    @override(Collector)
    def collect(self, make: Callable[[Any, int], Any]) -> CollectionResult:
        try:
            rows = make(self._runner, self._learner.updates)
        except EnvironmentFailure as failure:
            return CollectionResult(failure=failure)
        return CollectionResult([rows], self._runner.take_cut_episodes())

    @override(Collector)
    def metrics(self) -> list[Any]:
        return [self._runner.get_metrics()]

    @override(Collector)
    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["remote_runners"]:  # the run had runners in other processes, whose episodes must not be repeated
            self._runner.begin_new(state["env_steps"])
