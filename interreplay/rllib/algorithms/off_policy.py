"""The training loop of algorithms that replay transitions."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from ray.rllib.utils.annotations import override

from interreplay.diagnostics.batch_statistics import Diagnostics
from interreplay.diagnostics.memory_estimate import columns_of_spaces
from interreplay.diagnostics.on_manifold import OnManifold
from interreplay.environments.wrapped import own_name
from interreplay.errors import NonFiniteError
from interreplay.experience import Replay, RowSource, make_source
from interreplay.learning.offers import SUCCESS_COLUMN
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

    @override(TrainingLoop)
    def _sample(self) -> None:
        warm_up = self.env_steps < self.config.num_steps_sampled_before_learning_starts
        length = self.config.rollout_fragment_length
        length = 1 if length == "auto" else length
        progress = self.config.progress(self.env_steps)
        collected = self._collector.collect(length, warm_up, self._recorded, progress)
        self.experience.truncate_episodes(collected.cut)
        self._take(collected)

    @override(TrainingLoop)
    def _add(self, rows: Transitions) -> None:
        try:
            self.experience.add(rows)
            self.learner.observe(rows.obs)
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
    def _described(self) -> dict[str, float]:
        numbers = self.diagnostics.collect() | self.replay_buffer.statistics()
        return numbers | {"num_rows": len(self.replay_buffer)}

    @override(TrainingLoop)
    def _parts_state(self) -> dict[str, Any]:
        return {"diagnostics": self.diagnostics.state_dict()}

    @override(TrainingLoop)
    def _load_parts_state(self, state: dict[str, Any]) -> None:
        self.diagnostics.load_state_dict(state["diagnostics"])


OffPolicy = OffPolicyAlgorithm  # its name before; subclasses of it elsewhere may use it
