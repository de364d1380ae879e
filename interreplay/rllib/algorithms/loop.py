"""The training loop that all our algorithms share."""

from __future__ import annotations

import contextlib
import copy
import time
import uuid
from abc import abstractmethod
from collections.abc import Callable
from operator import methodcaller
from typing import Any, ClassVar

import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.registry import ALGORITHMS as STOCK_ALGORITHMS
from ray.rllib.core import (
    COMPONENT_EVAL_ENV_RUNNER,
    COMPONENT_METRICS_LOGGER,
    COMPONENT_RL_MODULE,
    DEFAULT_MODULE_ID,
)
from ray.rllib.core.learner.learner_group import LearnerGroup
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.utils.annotations import override
from ray.rllib.utils.metrics import (
    ALL_MODULES,
    ENV_RUNNER_RESULTS,
    EVALUATION_RESULTS,
    LEARNER_RESULTS,
    NUM_ENV_STEPS_TRAINED_LIFETIME,
)
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from interreplay.acting.trained_policy import TrainedPolicy
from interreplay.environments.actions import check_action_space
from interreplay.environments.spaces import have_same_form
from interreplay.errors import EnvironmentFailure
from interreplay.rllib.algorithms.loop_config import LoopConfig
from interreplay.rllib.checkpoints import CheckpointedAlgorithm, global_rng, set_global_rng
from interreplay.rllib.env_runner.env_creation import make_one
from interreplay.rllib.env_runner.remote import (
    CollectionResult,
    Collector,
    FromColumns,
    RemoteCollector,
    RemoteRunners,
    runner_errors,
)
from interreplay.rllib.env_runner.runner import LocalCollector
from interreplay.rllib.env_runner.stepping import has_time_limit
from interreplay.rllib.host import HostedAlgorithm
from interreplay.runs.resume import as_plain

LOOP_STATE = "interreplay_loop"
SPACES = ("observation_space", "action_space")
UNUSED: Any = (None, 0, 0, [])
"""Results, steps and batches of evaluations, which RLlib does not read: it reads the metrics."""


class TrainingLoop(CheckpointedAlgorithm, HostedAlgorithm):
    """Alternates between sampling a little and updating a little; only remote runners are in other processes.

    Evaluations can be interrupted, and results contain the current iteration only. A `source` of batches that was built
    from the same configuration replaces the one that the algorithm would build.

    Attributes:
        run_id: Random name of the run, which an algorithm that is restored from a checkpoint shares.
        stop_requested: Whether `train()` and evaluations should return soon.
        experience: The source of batches, which also determines when they are due.
        on_progress: Called with `env_steps` after every round; it must be cheap.
        on_draw: Called before batches are drawn; if it raises an error, due updates are left for the next `train()`.
        total_env_steps: Env steps at which the last iteration ends; None for iterations of equal length.
        iteration_end: Env steps at which the current iteration ends.
        config_class: Configuration of the algorithm.
    """

    config_class: ClassVar[Any]
    config: LoopConfig
    experience: Any
    learner: Any
    stop_requested: bool
    env_runner_group: EnvRunnerGroup
    learner_group: LearnerGroup
    metrics: MetricsLogger
    env_runner: Any
    eval_env_runner: Any
    evaluation_config: Any
    _collector: Collector
    _parts: dict[str, Any]
    _name: ClassVar[str]
    _time_total: float  # Ray's attribute, the source of `time_total_s`
    _iteration_began: float | None = None

    def __init__(self, config: Any = None, *, source: Any = None, **options: Any):
        self._ready_source = source
        super().__init__(config, **options)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Register this class as the algorithm of its `config_class`."""
        super().__init_subclass__(**kwargs)
        # Tune registers a class by this name; Tuner("SAC") continues to find RLlib's algorithm.
        cls._name = f"interreplay.{cls.__name__}" if cls.__name__ in STOCK_ALGORITHMS else cls.__name__
        if "config_class" in vars(cls) and "algorithm_class" not in vars(cls.config_class):
            cls.config_class.algorithm_class = (cls,)

    @classmethod
    @override(Algorithm)
    def get_default_config(cls) -> Any:
        return cls.config_class()

    @override(Algorithm)
    def setup(self, config: Any) -> None:
        if config.num_gpus_per_learner and not torch.cuda.is_available():
            raise ValueError(
                f"num_gpus_per_learner is {config.num_gpus_per_learner}; expected 0, because PyTorch finds no GPU"
            )
        try:
            super().setup(config)
        except Exception:
            if config.num_env_runners:  # RLlib drops the errors of runners in other processes
                check_action_space(make_one(config).action_space, config.architecture.acts_in)
            raise
        self._check_spaces()
        self.run_id = uuid.uuid4().hex
        self.stop_requested = False
        self.total_env_steps: int | None = None
        self.iteration_end = 0
        self._trained: dict[str, Any] | None = None  # results of training until the evaluation has ended
        self._reported_updates = 0
        self._acting: TrainedPolicy | None = None
        self.on_progress: Callable[[int], None] | None = None
        self.on_draw: Callable[[], None] | None = None
        self.learner = self.learner_group._learner
        self._has_schedules = self.config.has_schedules  # read at every step
        self._prepare()
        if self.config.num_env_runners == 0:
            # The runner shares the learner's networks, so that nothing is copied.
            self.env_runner.use_module(self.learner.single_module, self.learner._device)

    def _check_spaces(self) -> None:
        """Reject configured spaces, and an environment of evaluations, that do not fit the training environment."""
        assert self.spaces is not None, "every algorithm has an environment"
        own = dict(zip(SPACES, self.spaces[INPUT_ENV_SINGLE_SPACES], strict=True))
        for name, space in own.items():
            stated = getattr(self.config, name)
            if stated is not None and not have_same_form(stated, space):
                raise ValueError(f"{name} is {stated}; expected None or the space of the environment, {space}")
        if self.eval_env_runner_group is None:
            return
        others = self.eval_env_runner_group.get_spaces()[INPUT_ENV_SINGLE_SPACES]
        for (name, space), other in zip(own.items(), others, strict=True):
            if not have_same_form(space, other):
                raise ValueError(
                    f"evaluation_config: the environment {self.evaluation_config.env!r} has the {name} {other}; "
                    f"expected one like the training environment's, {space}"
                )

    @abstractmethod
    def _prepare(self) -> None:
        """Create `experience`, the collector, and `_parts`: further parts with a state, by name."""

    def _make_collector(self, from_columns: FromColumns) -> Collector:
        if self.config.num_env_runners == 0:
            return LocalCollector(self.env_runner, self.learner)
        runners = RemoteRunners(self.env_runner_group, self.config)
        return RemoteCollector(runners, self.learner, from_columns)

    @property
    def env_steps(self) -> int:
        """Env steps of the whole run, including the steps before a resume."""
        return self.experience.env_steps

    @property
    def evaluation_failed(self) -> bool:
        """Whether the last iteration has trained but not evaluated; the next `train()` only evaluates."""
        return self._trained is not None

    def discard_failed_evaluation(self) -> None:
        """Count an iteration whose evaluation failed as complete, without a result."""
        if self.evaluation_failed:
            self._trained = None
            self._iteration += 1

    @property
    def single_spaces(self) -> tuple[Any, Any]:
        """Observation and action space of one environment."""
        module = self.learner.single_module
        return module.observation_space, module.action_space

    def act(self, obs: Any, explore: bool = False) -> Any:
        """Return an action for an observation, or actions ``(n, ...)`` for several, in the environment's units.

        Training is not affected: nothing is counted or stored, and exploration has a separate random generator. A
        recurrent policy keeps its state until `start_episode`.

        Args:
            obs: Observation as the environment returns it; for several, each part has n along its first dimension.
            explore: Whether to explore as in training; otherwise the actions are the policy's best ones.

        Raises:
            ValueError: The observation is not in the environment's space.
        """
        if self._acting is None:
            observation_space, action_space = self.single_spaces
            self._acting = TrainedPolicy(
                self.learner.single_module.nets,
                observation_space,
                action_space,
                normalized=self.config.normalize_actions,
                exploration=copy.deepcopy(self.config.exploration),
                seed=self.config.seed,
            )
        progress = self.config.progress(self.env_steps) if explore else None
        if progress is not None and self._acting.exploration is not None:
            self._acting.exploration.anneal(progress)
        return self._acting.act(obs, explore)

    def start_episode(self) -> None:
        """Reset the memory of the policy and of its exploration before the first `act` of an episode."""
        if self._acting is not None:
            self._acting.start()

    @override(Algorithm)
    def get_module(self, module_id: str = DEFAULT_MODULE_ID) -> Any:
        """Return the networks of the runner in this process, with the learner's weights."""
        module = super().get_module(module_id)
        if module is not None and self.config.num_env_runners:
            module.set_state(self.learner.single_module.get_state())
        return module

    @property
    def elapsed_seconds(self) -> float:
        """Seconds spent in `train()` over the whole run, including earlier runs and the current iteration."""
        if self._iteration_began is None:
            return self._time_total
        return self._time_total + time.monotonic() - self._iteration_began

    def __repr__(self) -> str:
        """Return RLlib's description, or only the class after a rejected configuration, so that Ray shows the error."""
        return type(self).__name__ if self.config is None else super().__repr__()

    @staticmethod
    @override(Algorithm)
    def _get_env_id_and_creator(env_specifier: Any, config: Any) -> tuple[Any, Any]:
        """Return the environment's id and a function that creates it; RLlib rejects functions of one mapping."""
        if callable(env_specifier) and not isinstance(env_specifier, type):
            return env_specifier, env_specifier
        return Algorithm._get_env_id_and_creator(env_specifier, config)

    @override(Algorithm)
    def train(self) -> dict[str, Any]:
        """Return the result of one iteration; the time of an interrupted iteration counts in the next result.

        After an evaluation that failed, the next call only repeats it, and returns the result of its iteration.
        """
        self._iteration_began = time.monotonic()
        try:
            return super().train()
        except BaseException:
            self._time_total = self.elapsed_seconds
            raise
        finally:
            self._iteration_began = None
            self.stop_requested = False

    @override(Algorithm)
    def step(self) -> dict[str, Any]:
        result = super().step()
        self._trained = None
        return result

    @override(Algorithm)
    def _run_one_training_iteration(self) -> tuple[dict[str, Any], Any]:
        context = None
        if self._trained is None:
            self._trained, context = super()._run_one_training_iteration()
        return self._trained, context

    @override(Algorithm)
    def _create_local_replay_buffer_if_necessary(self, config: Any) -> None:
        """Do nothing: RLlib accepts only its own classes, and ours is created once the spaces are known."""

    def request_stop(self) -> None:
        """Let the running `train()` return after the current batches; safe in signal handlers and threads.

        An evaluation in this process ends between two steps, and its result is dropped. The request is over when
        `train()` or `evaluate()` returns.
        """
        self.stop_requested = True
        self.interrupt_evaluation()

    def interrupt_evaluation(self, only_endless: bool = False) -> None:
        """Let an evaluation in this process end between two steps; its result is dropped.

        With `only_endless`, do nothing if the environment has a time limit, which ends the evaluation soon.
        """
        runner = self._evaluating_runner()
        if runner is not None and not (only_endless and has_time_limit(runner.env)):
            runner.interrupted = True

    def _evaluating_runner(self) -> Any:
        """Return the runner that evaluates in this process, None if other processes do."""
        runner: Any = self.eval_env_runner
        if self.eval_env_runner_group is None:
            runner = self.env_runner
        if runner is None or runner.env is None:
            return None
        return runner

    @property
    def _evaluators(self) -> RemoteRunners | None:
        """The runners of evaluations, in this process or in others; None if the training runner evaluates."""
        group: Any = self.eval_env_runner_group
        return None if group is None else RemoteRunners(group, self.evaluation_config)

    @override(Algorithm)
    def evaluate(self, *args: Any, **options: Any) -> Any:
        progress = self.config.progress(self.env_steps)
        group: Any = self.eval_env_runner_group
        try:
            with runner_errors():
                # Without runners, RLlib would return the previous evaluation.
                if self._evaluators is not None and (failure := self._evaluators.missing()):
                    raise failure
                if progress is not None and group is None:
                    self.env_runner.anneal(progress)
                elif progress is not None and self.evaluation_config.explore:
                    group.foreach_env_runner(methodcaller("anneal", progress))
                return super().evaluate(*args, **options)
        finally:
            if self._iteration_began is None:  # else `train` is still running
                self.stop_requested = False

    @override(Algorithm)
    def _run_one_evaluation(self, parallel_train_future: Any = None) -> dict[str, Any]:
        if self.stop_requested:
            return {}
        results = super()._run_one_evaluation(parallel_train_future)
        runner = self._evaluating_runner()
        if runner is not None and runner.interrupted:
            return {}
        return results

    @override(Algorithm)
    def _evaluate_with_fixed_duration(self) -> Any:
        """Evaluate in other processes.

        RLlib drops the weights while an earlier transfer is in progress, and the results of runners that take longer
        than `evaluation_sample_timeout_s`, both without a message.
        """
        config = self.config
        unit = f"num_{config.evaluation_duration_unit}"
        reset = config.evaluation_force_reset_envs_before_iteration
        share, rest = divmod(config.evaluation_duration, config.evaluation_num_env_runners)

        def evaluate(runner: Any) -> Any:
            amount = share + int(runner.worker_index <= rest)
            runner.sample(**{unit: amount}, force_reset=reset, keep_episodes=False)
            return runner.get_metrics()

        assert self._evaluators is not None
        weights = self.learner.get_state(components=COMPONENT_RL_MODULE, inference_only=True)
        found, failure = self._evaluators.call_with_weights(weights, evaluate, "evaluation_sample_timeout_s")
        if failure is not None:
            raise failure
        self.metrics.aggregate(found, key=(EVALUATION_RESULTS, ENV_RUNNER_RESULTS))
        return UNUSED

    @override(Algorithm)
    def _evaluate_on_local_env_runner(self, env_runner: Any) -> Any:
        amount = {f"num_{self.config.evaluation_duration_unit}": self.config.evaluation_duration}
        with contextlib.ExitStack() as stack:
            if env_runner is not self.eval_env_runner:  # the runner of training, without `evaluation_interval`
                stack.enter_context(env_runner.evaluating(self.evaluation_config))
            env_runner.sample(**amount, keep_episodes=False)
            metrics = env_runner.get_metrics()
        self.metrics.aggregate([metrics], key=(EVALUATION_RESULTS, ENV_RUNNER_RESULTS))
        return UNUSED

    @override(Algorithm)
    def _compile_iteration_results(
        self, *, train_results: dict[str, Any], eval_results: dict[str, Any]
    ) -> dict[str, Any]:
        results = super()._compile_iteration_results(train_results=train_results, eval_results=eval_results)
        if not eval_results:
            # RLlib repeats the last evaluation, or NaN, in every iteration without an evaluation.
            results.pop(EVALUATION_RESULTS, None)
        return results

    # -- the loop ---------------------------------------------------------------------------------

    @property
    def rows_per_update(self) -> int:
        """Number of env steps in the batch of an update."""
        return self.config.train_batch_size_per_learner

    @override(Algorithm)
    def training_step(self) -> None:
        # Set per thread: otherwise, Adam's moments of units that are never active take ten times as long.
        torch.set_flush_denormal(True)
        length = self.config.steps_per_iteration
        self.iteration_end = (self.env_steps // length + 1) * length
        if self.total_env_steps is not None:
            self.iteration_end = min(self.iteration_end, self.total_env_steps)
        try:
            while not self.stop_requested:
                self._learn()
                if self.env_steps >= self.iteration_end or self.stop_requested:
                    break
                self._sample()
                if self.on_progress is not None:
                    self.on_progress(self.env_steps)
        except Exception:
            self.learner.check_losses()  # non-finite weights cause failures of environments and draws
            raise
        self._report()

    @abstractmethod
    def _sample(self) -> None:
        """Add one fragment of every runner to the experience."""

    def _store(self, collected: CollectionResult) -> None:
        """Add collected rows to the experience, then raise the error that ended their collection."""
        for rows in collected.rows:
            self._add(rows)
        failure = collected.failure
        if isinstance(failure, EnvironmentFailure):
            at = f"env step {self.env_steps + 1}"
            raise EnvironmentFailure(failure.env, failure.cause_text, at) from failure.__cause__
        if failure is not None:
            raise failure
        if self.config.anneal_steps:
            self.experience.anneal(min(1.0, self.env_steps / self.config.anneal_steps))

    @abstractmethod
    def _add(self, rows: Any) -> None:
        """Add the rows of one runner."""

    def _learn(self) -> None:
        """Make the updates that are due."""
        if self._has_schedules:
            self.learner.set_rates(self.config.rates(self.env_steps))
        for batch in self.experience.batches(self._stops_before_draw):
            self._update(batch)

    def _stops_before_draw(self) -> bool:
        """Return whether the updates that are due are left for the next `train()`."""
        if self.on_draw is not None and not self.stop_requested:
            self.on_draw()
        return self.stop_requested

    @abstractmethod
    def _update(self, batch: Any) -> None:
        """Update from a batch, and pass the result to the experience."""

    def _report(self) -> None:
        self.metrics.aggregate(self._collector.metrics(), key=ENV_RUNNER_RESULTS)
        learned = self.learner.collect_metrics() | {"num_updates_lifetime": self.learner.updates}
        for name, value in learned.items():
            self.metrics.log_value((LEARNER_RESULTS, DEFAULT_MODULE_ID, name), value, window=1)
        trained = (self.learner.updates - self._reported_updates) * self.rows_per_update
        self._reported_updates = self.learner.updates
        self.metrics.log_value(
            (LEARNER_RESULTS, ALL_MODULES, NUM_ENV_STEPS_TRAINED_LIFETIME), trained, reduce="lifetime_sum"
        )
        for name, value in self._statistics().items():
            self.metrics.log_value(("replay_buffer", name), value, window=1)
        self.metrics.log_value("env_steps", self.env_steps, window=1)

    @abstractmethod
    def _statistics(self) -> dict[str, float]:
        """Return statistics of the batches since the last report."""

    @override(Algorithm)
    def cleanup(self) -> None:
        for name in ("env_runner_group", "eval_env_runner_group"):
            if group := getattr(self, name, None):  # missing if the setup failed
                RemoteRunners(group, self.config).end_silent()
        super().cleanup()

    # -- state ------------------------------------------------------------------------------------

    @override(Algorithm)
    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component(LOOP_STATE, components, not_components):
            state[LOOP_STATE] = {
                **self.experience.state_dict(),
                "run_id": self.run_id,
                "trained": as_plain(self._trained),
                "reported_updates": self._reported_updates,
                "elapsed_seconds": self.elapsed_seconds,
                "global_rng": global_rng(),
                **{name: part.state_dict() for name, part in self._parts.items()},
                **self._collector.state_dict(),
            }
            if self._evaluators is not None:
                # RLlib continues without a runner of evaluations that hangs.
                limit = self.config.evaluation_sample_timeout_s
                state[LOOP_STATE]["evaluation_runners"] = self._evaluators.states(limit)
        return state

    @override(Algorithm)
    def set_state(self, state: dict[str, Any]) -> None:
        # RLlib would load the state of the training runner into the evaluation runner.
        evaluation = state.get(COMPONENT_EVAL_ENV_RUNNER)
        if COMPONENT_METRICS_LOGGER in state:  # RLlib reads the number of env steps before it restores it
            self.metrics.set_state(state[COMPONENT_METRICS_LOGGER])
        super().set_state({name: state[name] for name in state.keys() - {COMPONENT_EVAL_ENV_RUNNER}})
        if evaluation is not None and self.eval_env_runner:
            self.eval_env_runner.set_state(evaluation)
        if LOOP_STATE not in state:
            return
        loop = state[LOOP_STATE]
        self.experience.load_state_dict(loop)
        self.run_id = loop.get("run_id", self.run_id)  # missing in checkpoints of 0.3.0, as the next one
        self._trained = loop.get("trained")
        self._reported_updates = int(loop["reported_updates"])
        self._time_total = float(loop["elapsed_seconds"])
        self.learner.set_rates(self.config.rates(self.env_steps))
        set_global_rng(loop["global_rng"])
        for name, part in self._parts.items():
            if name in loop:  # the parent of a fork may lack an episode table
                part.load_state_dict(loop[name])
        self._collector.load_state_dict(loop)
        if self._evaluators is not None:
            self._evaluators.load_states(loop.get("evaluation_runners", {}), self.env_steps)  # missing in 0.3.0
