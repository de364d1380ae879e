"""The training loop of algorithms that replay transitions."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from ray.rllib.utils.annotations import override
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME

from interreplay.diagnostics.batch_statistics import Diagnostics
from interreplay.diagnostics.memory_estimate import columns_of_spaces
from interreplay.diagnostics.on_manifold import OnManifold
from interreplay.environments.wrapped import own_name
from interreplay.errors import NonFiniteError
from interreplay.experience import Replay, RowSource, make_source
from interreplay.learning.update import SUCCESS_COLUMN
from interreplay.part import Context
from interreplay.rllib.algorithms.collectors import make_collector
from interreplay.rllib.algorithms.goal_functions import goal_functions
from interreplay.rllib.algorithms.loop import TrainingLoop
from interreplay.transitions import Transitions


class OffPolicyAlgorithm(TrainingLoop):
    """Rows of a few steps are added to a replay buffer, and batches of it learned from.

    Attributes:
        experience: What is learned from, and when.
    """

    experience: Replay

    @override(TrainingLoop)
    def _prepare(self) -> None:
        self._collector = make_collector(self.config, self.env_runner_group, self.learner)
        self.experience = self._make_experience()
        self.diagnostics = Diagnostics(on_manifold=self._simulator())
        self._recorded = self.replay_buffer.columns_wanted
        self._connect(self.config)
        scale = self.learner.reward_scale
        if self.config.normalize_observations or scale is not None:
            for rows in self.replay_buffer.recorded_rows():
                self._observe(rows)
        if scale is not None:
            scale.forget()  # no env step continues a recorded episode

    def _observe(self, rows: Transitions) -> None:
        """Add rows to the running statistics of observations and rewards."""
        self.learner.observe(rows.obs)
        if self.learner.reward_scale is not None:
            self.learner.reward_scale.observe(rows)

    @property
    def replay_buffer(self) -> RowSource:
        """The `interreplay.ReplayBuffer`, or the mix of several, that is learned from."""
        return self.experience.rows

    @property
    def capacity(self) -> str:
        """Rows that are stored, as text."""
        return str(self.replay_buffer.capacity)

    def _make_experience(self) -> Replay:
        config = self.config
        return Replay(
            self._make_rows(),
            config.train_batch_size_per_learner,
            config.updates_per_step,
            config.num_steps_sampled_before_learning_starts if config.collect else 0,
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
            "spaces": self.single_spaces,
        }
        rows = make_source(kind, defaults, **arguments)
        self._check_recorded(rows)
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

    def _check_recorded(self, rows: RowSource) -> None:
        """Refuse settings under which recorded rows cannot be used, or are all that there would be and are none."""
        if not self.config.normalize_actions and next(rows.recorded_rows(), None) is not None:
            raise ValueError("normalize_actions is False; expected True where recorded experience is replayed")
        if not self.config.collect and not len(rows):
            raise ValueError("collect is False; expected recorded experience to learn from, as Offline has it")

    def _connect(self, config: Any) -> None:
        """Offer the parts of the buffer what this algorithm and its environment have."""
        module = self.learner.single_module
        reward, terminated = None, None
        if self.replay_buffer.wants_goal_functions:
            reward, terminated = goal_functions(config, self.env_runner.env)
        policy, device = (module.policy_output, module.gaussian), self.learner._device
        score = self.learner.score
        env = config.env if isinstance(config.env, str) else None
        simulator = self.diagnostics.on_manifold
        simulate = None if simulator is None else simulator.of_rows
        spaces = self.single_spaces
        context = Context(*policy, reward, terminated, *spaces, device, score, env, config.env_config, simulate)
        self.replay_buffer.connect(context)
        self.learner.want_scores(self.replay_buffer.scores_wanted)

    def _simulator(self) -> OnManifold | None:
        rows = self.config.on_manifold_rows
        return OnManifold(gym.make(self.config.env, **self.config.env_config), rows) if rows else None

    def _learn_in_place_of_steps(self) -> None:
        """Make the updates of one draw, within the iteration and the run; they count as steps."""
        done, config = self.env_steps, self.config
        left = config.steps_per_iteration - done % config.steps_per_iteration
        if config.anneal_steps and config.anneal_steps > done:
            left = min(left, config.anneal_steps - done)
        self.experience.advance(min(config.batches_per_draw, left))
        self._learn()
        if config.anneal_steps:
            self.experience.anneal(self.env_steps / config.anneal_steps)

    @override(TrainingLoop)
    def _sample(self) -> None:
        if self.config.collect:
            self._collect()
        else:
            self._learn_in_place_of_steps()

    def _collect(self) -> None:
        """Add one fragment of every runner to what is learned from."""
        warm_up = self.env_steps < self.config.num_steps_sampled_before_learning_starts
        length = self.config.rollout_fragment_length
        length = 1 if length == "auto" else length
        progress = self.config.progress(self.env_steps)
        collected = self._collector.collect(length, warm_up, self._recorded, progress)
        self.experience.truncate_episodes(collected.cut)
        if self.learner.reward_scale is not None:
            self.learner.reward_scale.forget(collected.cut)
        self._take(collected)

    @override(TrainingLoop)
    def _add(self, rows: Transitions) -> None:
        try:
            self.experience.add(rows)
            self._observe(rows)
        except NonFiniteError as error:
            step, env = self.env_steps + error.row + 1, own_name(self.config.env, self.config.env_config)
            raise NonFiniteError(
                error.column,
                error.row,
                error.value,
                at=f"env step {step} of {env}",
            ) from None

    @override(TrainingLoop)
    def _update(self, batch: Any) -> None:
        result = self.learner.update_from_sample(batch)
        self.experience.update(batch, result)
        self.diagnostics.observe(self.replay_buffer, batch, result.errors)

    @override(TrainingLoop)
    def _compile_iteration_results(self, **parts: Any) -> dict[str, Any]:
        results = super()._compile_iteration_results(**parts)
        if not self.config.collect:  # updates take the place of steps, on the axes of reports too
            results[NUM_ENV_STEPS_SAMPLED_LIFETIME] = self.env_steps
            results.get(ENV_RUNNER_RESULTS, {})[NUM_ENV_STEPS_SAMPLED_LIFETIME] = self.env_steps
        return results

    @override(TrainingLoop)
    def _described(self) -> dict[str, float]:
        numbers = self.diagnostics.collect() | self.replay_buffer.statistics()
        if self.learner.reward_scale is not None:
            numbers["reward_divisor"] = self.learner.reward_scale.divisor
        return numbers | {"num_rows": len(self.replay_buffer)}

    @override(TrainingLoop)
    def _parts_state(self) -> dict[str, Any]:
        return {"diagnostics": self.diagnostics.state_dict()}

    @override(TrainingLoop)
    def _load_parts_state(self, state: dict[str, Any]) -> None:
        self.diagnostics.load_state_dict(state["diagnostics"])
