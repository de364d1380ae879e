"""The training loop that all our algorithms share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium as gym
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.utils.annotations import override
from ray.rllib.utils.metrics import (
    ALL_MODULES,
    ENV_RUNNER_RESULTS,
    LEARNER_RESULTS,
    NUM_ENV_STEPS_TRAINED_LIFETIME,
)

from interreplay.diagnostics.batch_statistics import Diagnostics
from interreplay.diagnostics.memory_estimate import columns_of_spaces
from interreplay.diagnostics.on_manifold import OnManifold
from interreplay.errors import EnvironmentFailure, NonFiniteError
from interreplay.experience import Replay, RowSource, make_source
from interreplay.learning.offers import SUCCESS_COLUMN
from interreplay.part import Context
from interreplay.rllib.algorithms.collectors import make_collector
from interreplay.rllib.algorithms.goal_functions import goal_functions
from interreplay.rllib.algorithms.shell import Shell
from interreplay.rllib.checkpoints.global_generators import global_rng, set_global_rng
from interreplay.transitions import Transitions

LOOP_STATE = "interreplay_loop"


class OffPolicyAlgorithm(Shell):
    """Sample a little, update a little, over and over; every part in this process but the remote runners.

    Attributes:
        experience: What is learned from, and when.
        on_progress: Called with `env_steps` after every round; cheap work only.
        config_class: Configuration of the algorithm.
    """

    config_class: ClassVar[Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let the configuration that the class names make algorithms of this class."""
        super().__init_subclass__(**kwargs)
        if "config_class" in vars(cls) and "algorithm_class" not in vars(cls.config_class):
            cls.config_class.algorithm_class = cls

    @classmethod
    @override(Algorithm)
    def get_default_config(cls) -> Any:
        return cls.config_class()

    @override(Algorithm)
    def setup(self, config: Any) -> None:
        super().setup(config)
        self.stop_requested = False
        self._reported_updates = 0
        self.on_progress: Callable[[int], None] | None = None
        self.learner = self.learner_group._learner
        self._has_schedules = self.config.has_schedules  # asked for at every step
        self._collector = make_collector(self.config, self.env_runner_group, self.learner)
        self.experience = self._make_experience()
        self.diagnostics = Diagnostics(on_manifold=self._simulator())
        self._recorded = self.replay_buffer.columns_wanted
        self._connect(config)
        if self.config.num_env_runners == 0:
            # The very networks that are learned: nothing to copy.
            self.env_runner.use_module(self.learner.single_module, self.learner._device)

    @property
    def env_steps(self) -> int:
        """Env steps of the whole run, over resumes."""
        return self.experience.env_steps

    @property
    def replay_buffer(self) -> RowSource:
        """The `interreplay.ReplayBuffer`, or the mix of several, that is learned from."""
        return self.experience.rows

    def _make_experience(self) -> Replay:
        config = self.config
        return Replay(
            self._make_rows(),
            config.train_batch_size_per_learner,
            config.updates_per_step,
            config.num_steps_sampled_before_learning_starts,
            config.batches_per_draw,
        )

    def _make_rows(self) -> RowSource:
        arguments = dict(self.config.replay_buffer_config)
        kind = arguments.pop("type")
        defaults = {
            "seed": self.config.seed,
            "n_step": self.config.n_step,
            "gamma": self.config.gamma,
            "device": str(self.learner._device),
        }
        rows = make_source(kind, defaults, **arguments)
        batch = self.config.train_batch_size_per_learner
        if rows.capacity < batch:
            raise ValueError(f"capacity is {rows.capacity}; expected at least the batch size {batch}")
        rows.check_offers(self.learner.offers | {SUCCESS_COLUMN}, type(self).__name__)
        brought_by = type(rows).__name__ if rows.brings_critic_loss else None
        self.config.check_loss(brought_by)
        observation_space, action_space = self.single_spaces
        try:
            rows.check(columns_of_spaces(observation_space, action_space))
        except ValueError as error:
            raise ValueError(
                f"{error}; the observation space is {observation_space}, the action space {action_space}"
            ) from None
        return rows

    def _connect(self, config: Any) -> None:
        """Offer the parts of the buffer what this algorithm and its environment have."""
        module = self.learner.single_module
        reward, terminated = None, None
        if self.replay_buffer.wants_goal_functions:
            reward, terminated = goal_functions(config, self.env_runner.env)
        policy, device = (module.policy_output, module.gaussian), self.learner._device
        score = self.learner.score
        self.replay_buffer.connect(Context(*policy, reward, terminated, *self.single_spaces, device, score))
        self.learner.want_scores(self.replay_buffer.scores_wanted)

    def _simulator(self) -> OnManifold | None:
        rows = self.config.on_manifold_rows
        return OnManifold(gym.make(self.config.env, **self.config.env_config), rows) if rows else None

    @property
    def single_spaces(self) -> tuple[Any, Any]:
        """Observation and action space of one environment."""
        module = self.learner.single_module
        return module.observation_space, module.action_space

    # -- the loop ---------------------------------------------------------------------------------

    @override(Algorithm)
    def training_step(self) -> None:
        # Of this thread: Adam's moments of units that are never active take ten times as long otherwise.
        torch.set_flush_denormal(True)
        length, batch = self.config.steps_per_iteration, self.config.train_batch_size_per_learner
        goal, enough = (self.env_steps // length + 1) * length, self.config.trained_rows_per_iteration
        first = self.learner.updates
        while not self.stop_requested:
            self._learn()
            if self.env_steps >= goal:
                if (self.learner.updates - first) * batch >= enough:
                    break
                goal += length
            if self.stop_requested:
                break
            self._sample()
            if self.on_progress is not None:
                self.on_progress(self.env_steps)
        self._report()

    def _sample(self) -> None:
        """Add one fragment of every runner to the buffer.

        Raises:
            EnvironmentFailure: An environment raised an error, or gave what cannot be stored.
            RunnerLost: A remote runner is gone, and is not restarted.
        """
        warm_up = self.env_steps < self.config.num_steps_sampled_before_learning_starts
        length = self.config.rollout_fragment_length
        length = 1 if length == "auto" else length
        progress = self.config.progress(self.env_steps)
        collected = self._collector.collect(length, warm_up, self._recorded, progress)
        self.experience.truncate_episodes(collected.cut)
        for rows in collected.rows:
            self._add(rows)
        if isinstance(collected.failure, EnvironmentFailure):
            raise collected.failure.located(f"env step {self.env_steps + 1}")
        if collected.failure is not None:
            raise collected.failure
        if not collected.rows:
            self._collector.wait(self.restore_lost_runners, lambda: self.stop_requested)
        if self.config.anneal_steps:
            self.experience.anneal(self.env_steps / self.config.anneal_steps)

    def _add(self, rows: Transitions) -> None:
        try:
            self.experience.add(rows)
            self.learner.observe(rows)
        except NonFiniteError as error:
            step = self.env_steps + error.row + 1
            raise NonFiniteError(
                error.column, error.row, error.value, at=f"env step {step} of {self.config.env}"
            ) from None

    def _learn(self) -> None:
        """Do the updates that are due."""
        if self._has_schedules:
            self.learner.set_rates(self.config.rates(self.env_steps))
        for batch in self.experience.batches(lambda: self.stop_requested):
            result = self.learner.update_from_sample(batch)
            self.experience.update(batch, result)
            self.diagnostics.observe(self.replay_buffer, batch, result.errors)

    def _report(self) -> None:
        self.metrics.aggregate(self._collector.metrics(), key=ENV_RUNNER_RESULTS)
        learned = self.learner.collect_metrics() | {"num_updates_lifetime": self.learner.updates}
        for name, value in learned.items():
            self.metrics.log_value((LEARNER_RESULTS, DEFAULT_MODULE_ID, name), value, window=1)
        trained = (self.learner.updates - self._reported_updates) * self.config.train_batch_size_per_learner
        self._reported_updates = self.learner.updates
        self.metrics.log_value(
            (LEARNER_RESULTS, ALL_MODULES, NUM_ENV_STEPS_TRAINED_LIFETIME), trained, reduce="lifetime_sum"
        )
        described = self.diagnostics.collect() | {"num_rows": len(self.replay_buffer)}
        for name, value in described.items():
            self.metrics.log_value(("replay_buffer", name), value, window=1)
        self.metrics.log_value("env_steps", self.env_steps, window=1)

    # -- state ------------------------------------------------------------------------------------

    @override(Algorithm)
    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component(LOOP_STATE, components, not_components):
            state[LOOP_STATE] = {
                **self.experience.state_dict(),
                "reported_updates": self._reported_updates,
                "diagnostics": self.diagnostics.state_dict(),
                "global_rng": global_rng(),
                **self._collector.state_dict(),
            }
        return state

    @override(Algorithm)
    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        if LOOP_STATE not in state:
            return
        loop = state[LOOP_STATE]
        self.experience.load_state_dict(loop)
        self._reported_updates = int(loop.get("reported_updates", self.learner.updates))
        self.learner.set_rates(self.config.rates(self.env_steps))
        self.diagnostics.load_state_dict(loop["diagnostics"])
        set_global_rng(loop["global_rng"])
        self._collector.load_state_dict(loop)


OffPolicy = OffPolicyAlgorithm  # its name before; subclasses of it elsewhere may use it
