"""Configuration and training loop of algorithms that replay transitions."""

from __future__ import annotations

import copy
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from operator import methodcaller
from pathlib import Path
from typing import Any, ClassVar, cast

from ray.rllib.utils.annotations import override
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME

from interreplay.diagnostics.batch_statistics import Diagnostics
from interreplay.diagnostics.episode_table import EPISODE_LENGTH, EPISODE_RETURN, EpisodeTable
from interreplay.diagnostics.on_manifold import OnManifold
from interreplay.environments.registration import WRAPPED, inner_env_name
from interreplay.environments.spaces import columns_from_spaces
from interreplay.errors import NonFiniteError, check_number
from interreplay.experience import Replay, RowSource, make_source
from interreplay.experience.recipes import as_settings
from interreplay.experience.store import StoreWriter
from interreplay.learning.losses import check_loss, find_chosen_losses
from interreplay.learning.settings import ActorCriticSettings, ReplaySettings
from interreplay.learning.update import CRITIC_LOSS, SCORING, SUCCESS_COLUMN, Update
from interreplay.part import Context
from interreplay.rllib.algorithms.learner import OffPolicyLearner
from interreplay.rllib.algorithms.loop import TrainingLoop
from interreplay.rllib.algorithms.loop_config import LoopConfig
from interreplay.rllib.algorithms.rllib_settings import replay_method
from interreplay.rllib.env_runner.env_creation import goal_functions, make_one
from interreplay.rllib.env_runner.runner_state import REPORTED_SUCCESS
from interreplay.rllib.stock.buffer import DOTTED
from interreplay.rllib.stock.buffer import ReplayBuffer as StockReplayBuffer
from interreplay.transitions import Transitions, group_columns, with_extras

logger = logging.getLogger(__name__)


class OffPolicyConfig(LoopConfig):
    """Settings shared by the off-policy algorithms: the settings of `LoopConfig` and of replay."""

    loop_class = ReplaySettings
    settings_class: ClassVar[type] = ActorCriticSettings
    learner_class = OffPolicyLearner
    trainer = "SAC"

    # Fields of `ReplaySettings`, set in the constructor.
    batches_per_draw: int
    collect: bool
    episode_table: bool
    n_step: Any
    num_steps_sampled_before_learning_starts: int
    on_manifold_rows: int
    scale_rewards: bool
    updates_per_step: float

    @override(LoopConfig)
    def build_algo(self, env: Any = None, use_copy: bool = True) -> OffPolicyAlgorithm:
        """Return the algorithm, ready to train; arguments as in RLlib."""
        return cast(OffPolicyAlgorithm, super().build_algo(env, use_copy=use_copy))

    @override(LoopConfig)
    def _replayed(self, kind: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        if kind is StockReplayBuffer or kind == DOTTED:
            arguments = dict(arguments)
            kind = arguments.pop("buffer", "Uniform")
        return as_settings(replay_method(kind), arguments)

    @override(LoopConfig)
    def validate(self) -> None:
        super().validate()
        self.check_loss()
        if self.episode_table and not self.collect:
            raise ValueError("episode_table is True and collect False; expected one of them: no episode is played")
        n_step = self.replay_buffer_config.get("n_step", self.n_step)
        if self.on_manifold_rows and n_step not in (1, (1, 1), [1, 1]):
            raise ValueError(f"on_manifold_rows simulates single steps and n_step is {n_step}; expected n_step 1")
        capacity = self.replay_buffer_config.get("capacity")
        if capacity is not None:
            check_number("capacity", capacity, 1, whole=True)
            if capacity < self.train_batch_size_per_learner:
                raise ValueError(
                    f"capacity is {capacity}; expected at least the batch size {self.train_batch_size_per_learner}"
                )
        self.update_settings()  # rejects contradictory settings

    def check_loss(self, method_with_loss: str | None = None) -> None:
        """Reject settings of the critics' loss that contradict each other or the loss of the replay method."""
        check_loss(**find_chosen_losses(vars(self), self.settings_class), method=method_with_loss)

    @override(LoopConfig)
    def make_update(self, module: Any) -> Update:
        return self.update_class(module.nets, settings=self.update_settings())


class OffPolicyAlgorithm(TrainingLoop):
    """Adds short fragments of transitions to a replay buffer, and learns from batches that it returns.

    Attributes:
        episode_table: The finished episodes if the setting ``episode_table`` is True, else None.
        on_rows: Called with new rows after they were added, see `record_rows`; None if they are not recorded.
    """

    config: OffPolicyConfig
    experience: Replay
    learner: OffPolicyLearner
    episode_table: EpisodeTable | None = None
    on_rows: Callable[[Transitions], None] | None = None

    @override(TrainingLoop)
    def _prepare(self) -> None:
        self._collector = self._make_collector(lambda columns: Transitions(**group_columns(columns)))
        self.experience = self._make_experience()
        simulator = None
        if self.config.on_manifold_rows:
            simulator = OnManifold(make_one(self.config), self.config.on_manifold_rows)
        self.diagnostics = Diagnostics(on_manifold=simulator)
        self._parts = {"diagnostics": self.diagnostics}
        self._wanted = self.replay_buffer.columns_wanted
        self._recorded = self._wanted
        if self.config.episode_table:
            self.episode_table = EpisodeTable(self.learner.update_rule.metrics)
            self._parts["episode_table"] = self.episode_table
            self._recorded |= {EPISODE_RETURN, EPISODE_LENGTH}
        self.replay_buffer.connect(self._context())
        self.learner.update_rule.scores_wanted = self.replay_buffer.scores_wanted & self.learner.update_rule.offers
        self.learner.batches_define_loss = self._batches_define_loss()
        scale = self.learner.reward_scale
        if self.config.normalize_observations or scale is not None:
            for recorded in self.replay_buffer.recorded_rows():
                self._observe(recorded)
        if scale is not None:
            scale.forget()  # no env step continues a recorded episode

    def _batches_define_loss(self) -> bool:
        """Return whether the replay method sets the critics' loss, or requires the update's scores to draw rows."""
        others = self.learner.update_rule.offers - {SCORING, CRITIC_LOSS} | {SUCCESS_COLUMN}
        try:
            self.replay_buffer.check_offers(others, type(self).__name__)
        except ValueError:
            return True
        return self.replay_buffer.brings_critic_loss

    def _observe(self, rows: Transitions) -> None:
        """Add rows to the running statistics of observations and rewards."""
        self.learner.observe(rows.obs)
        if self.learner.reward_scale is not None:
            self.learner.reward_scale.observe(rows)

    def keep_experience(
        self,
        folder: str | Path,
        most_rows: int = 1_000_000,
        about: Mapping[str, Any] | None = None,
        notify: Callable[[str], object] = logger.warning,
    ) -> StoreWriter:
        """Store all further transitions on disk; transitions after this step from an earlier process are set aside.

        Args:
            folder: Folder of the store.
            most_rows: Maximum number of rows; the oldest are dropped.
            about: Plain values for the header of the store.
            notify: Called with one line if the recording ends early, such as on a full disk, or if rows are set aside.

        Returns:
            The writer, to be closed at the end.
        """
        config = self.config
        inner = config.env_config.get("arguments", {}) if config.env == WRAPPED else config.env_config
        writer = StoreWriter(
            Path(folder),
            env=inner_env_name(config.env, config.env_config),
            env_args=inner,
            spaces=self.single_spaces,
            most_rows=most_rows,
            about=about,
            notify=notify,
        )
        if moved := writer.rewind(self.env_steps):
            notify(f"{moved:,} rows of experience after step {self.env_steps:,} are kept in {folder}_aside_*")

        def record(added: Transitions) -> None:
            if SUCCESS_COLUMN in added.extras and SUCCESS_COLUMN not in self._recorded:  # otherwise it is always there
                writer.reports_success = True
            writer.add(added, self.env_steps - len(added) + 1, self.learner.updates)

        self.record_rows(record)
        return writer

    def record_rows(self, on_rows: Callable[[Transitions], None] | None) -> None:
        """Call a function with new rows, including reported successes, after they were added; None stops the calls."""
        self.on_rows = on_rows
        self._recorded -= {REPORTED_SUCCESS, SUCCESS_COLUMN} - self._wanted
        if on_rows is not None:
            single = self.config.num_envs_per_env_runner == 1
            one_round = single and self.config.rollout_fragment_length in (1, "auto")
            self._recorded |= {REPORTED_SUCCESS if one_round else SUCCESS_COLUMN}

    def recover(self, rows: Iterable[Transitions]) -> int:
        """Add rows that were collected after the restored checkpoint; they count as env steps, and updates become due.

        Iterations that these rows complete are counted, so that evaluations and checkpoints are due at the same steps
        as in an uninterrupted run.

        The environments begin new episodes, since the recovered rows have continued the checkpoint's episodes.

        Args:
            rows: Portions of transitions in chronological order.

        Returns:
            The number of rows.

        Raises:
            ValueError: The rows lack a column that the replay method requires.
        """
        counts: Counter[int] = Counter()
        length = self.config.steps_per_iteration
        completed = self.env_steps // length
        for portion in rows:
            before = min(len(portion), max(0, self.experience.missing_rows - 1))  # no updates are due for these rows
            for part in (portion[:before], portion[before:]):
                if len(part):
                    self._add_rows(self._drop_recorded_columns(part))
            assert portion.episode is not None
            counts.update(portion.episode.tolist())
        if counts:
            self._iteration += self.env_steps // length - completed
            self.discard_failed_evaluation()
        self._end_episodes(list(counts))
        self.env_runner_group.foreach_env_runner(methodcaller("begin_after", counts))
        return sum(counts.values())

    def fill(self, rows: Iterable[Transitions]) -> None:
        """Add rows in chronological order; they do not count as env steps, and no updates become due.

        Raises:
            ValueError: The rows lack a column that the replay method requires.
        """
        for portion in rows:
            self.replay_buffer.add(self._drop_recorded_columns(portion))

    @property
    def replay_buffer(self) -> RowSource:
        """The `interreplay.ReplayBuffer`, or the mix of several, from which batches are drawn."""
        return self.experience.rows

    @property
    def capacity(self) -> str:
        """Maximum number of stored rows, as text."""
        return str(self.replay_buffer.capacity)

    def _make_experience(self) -> Replay:
        config = self.config
        batch = config.train_batch_size_per_learner
        defaults = {
            "seed": config.seed,
            "n_step": config.n_step,
            "gamma": config.gamma,
            "device": str(self.learner.batch_device),
            "spaces": self.single_spaces,
        }
        rows = self._ready_source
        if rows is None:
            # Parts given as objects are copied: the configuration is part of every result, and may build more runs.
            arguments = copy.deepcopy(dict(config.replay_buffer_config))
            rows = make_source(arguments.pop("type"), defaults, **arguments)
        if not config.normalize_actions and next(rows.recorded_rows(), None) is not None:
            raise ValueError("normalize_actions is False; expected True where recorded experience is replayed")
        if not config.collect and not len(rows):
            raise ValueError("collect is False; expected recorded experience to learn from, such as Offline")
        if rows.capacity < batch:
            raise ValueError(f"capacity is {rows.capacity}; expected at least the batch size {batch}")
        rows.check_offers(self.learner.update_rule.offers | {SUCCESS_COLUMN}, type(self).__name__)
        if rows.brings_critic_loss:
            config.check_loss(type(rows).__name__)
        observation_space, action_space = self.single_spaces
        try:
            rows.check(columns_from_spaces(observation_space, action_space))
        except ValueError as error:
            raise ValueError(
                f"{error}; the observation space is {observation_space}, the action space {action_space}"
            ) from None
        learning_starts = config.num_steps_sampled_before_learning_starts
        if not config.collect:
            learning_starts = 0
        return Replay(
            rows,
            batch_size=batch,
            updates_per_step=config.updates_per_step,
            learning_starts=learning_starts,
            batches_per_draw=config.batches_per_draw,
        )

    def _context(self) -> Context:
        """Return the functions of this algorithm and its environment that parts of the replay buffer can use."""
        config = self.config
        module = self.learner.single_module
        reward = None
        terminated = None
        if self.replay_buffer.wants_goal_functions:
            reward, terminated = goal_functions(config, self.env_runner.env)
        simulator = self.diagnostics.on_manifold
        observation_space, action_space = self.single_spaces
        return Context(
            policy=module.policy_output,
            policy_is_gaussian=module.policy.gaussian,
            compute_reward=reward,
            compute_terminated=terminated,
            observation_space=observation_space,
            action_space=action_space,
            device=self.learner._device,
            score=self.learner.score,
            environment=config.env if isinstance(config.env, str) else None,
            environment_arguments=config.env_config,
            simulate=None if simulator is None else simulator.measure_rows,
        )

    @override(TrainingLoop)
    def _sample(self) -> None:
        config = self.config
        if not config.collect:
            self._learn_without_steps()
            return
        warm_up = self.env_steps < config.num_steps_sampled_before_learning_starts
        length = config.rollout_fragment_length
        if length == "auto":
            length = 1
        recorded = self._recorded
        progress = config.progress(self.env_steps)

        def make(runner: Any, version: int) -> Transitions:
            return runner.collect(length * runner.num_envs, warm_up, recorded, progress)

        collected = self._collector.collect(make)
        self._end_episodes(collected.cut)
        self._store(collected)

    def _end_episodes(self, ids: list[int]) -> None:
        self.experience.truncate_episodes(ids)
        if self.episode_table is not None:
            self.episode_table.discard(ids)
        if self.learner.reward_scale is not None:
            self.learner.reward_scale.forget(ids)

    def _learn_without_steps(self) -> None:
        """Make the updates of one draw from recorded experience, within the iteration and the run, counted as steps."""
        done = self.env_steps
        left = self.iteration_end - done
        anneal_steps = self.config.anneal_steps
        if anneal_steps and anneal_steps > done:
            left = min(left, anneal_steps - done)
        self.experience.advance(min(self.config.batches_per_draw, left))
        self._learn()
        if anneal_steps:
            self.experience.anneal(min(1.0, self.env_steps / anneal_steps))

    @override(TrainingLoop)
    def _add(self, rows: Transitions) -> None:
        self._add_rows(self._drop_recorded_columns(rows))
        if self.episode_table is not None:
            self.episode_table.add(rows, self.env_steps)
            extras = dict(rows.extras)
            del extras[EPISODE_RETURN], extras[EPISODE_LENGTH]
            rows = rows.replace(extras=extras)
        if self.on_rows is not None:
            self.on_rows(rows)

    def _drop_recorded_columns(self, rows: Transitions) -> Transitions:
        """Return rows without the extra columns that are only recorded, not replayed."""
        if self._wanted == rows.extras.keys():
            return rows
        return with_extras(rows, self._wanted)

    def _add_rows(self, rows: Transitions) -> None:
        try:
            self.experience.add(rows)
            self._observe(rows)
        except NonFiniteError as error:
            env = inner_env_name(self.config.env, self.config.env_config)
            place = f"env step {self.env_steps + error.row + 1} of {env}"
            raise NonFiniteError(error.column, error.row, error.value, at=place) from None

    @override(TrainingLoop)
    def _learn(self) -> None:
        super()._learn()
        if not self.stop_requested:  # otherwise updates may be left, which a resumed run makes first
            self.learner.update_rule.after_updates(self.env_steps, self.learner.generator)

    @override(TrainingLoop)
    def _update(self, batch: Any) -> None:
        result = self.learner.learn_from(batch)
        self.experience.update(batch, result)
        self.diagnostics.observe(self.replay_buffer, batch, result.errors)
        if self.episode_table is not None:
            self.episode_table.observe(self.replay_buffer, batch, result.errors, result.metrics)

    @override(TrainingLoop)
    def _compile_iteration_results(self, **parts: Any) -> dict[str, Any]:
        results = super()._compile_iteration_results(**parts)
        if not self.config.collect:  # updates count as steps, also in reports
            results[NUM_ENV_STEPS_SAMPLED_LIFETIME] = self.env_steps
            results.get(ENV_RUNNER_RESULTS, {})[NUM_ENV_STEPS_SAMPLED_LIFETIME] = self.env_steps
        return results

    @override(TrainingLoop)
    def _statistics(self) -> dict[str, float]:
        numbers = self.diagnostics.collect() | self.replay_buffer.statistics()
        if self.learner.reward_scale is not None:
            numbers["reward_divisor"] = self.learner.reward_scale.divisor
        return numbers | {"num_rows": len(self.replay_buffer)}
