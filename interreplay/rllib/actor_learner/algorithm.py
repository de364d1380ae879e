"""The training loop of algorithms that learn from unrolls."""

from __future__ import annotations

import json
from typing import Any

from ray.rllib.utils.annotations import override

from interreplay.diagnostics.unroll_statistics import UnrollStatistics
from interreplay.errors import EnvironmentFailure
from interreplay.rllib.algorithms.loop import TrainingLoop
from interreplay.transitions import map_observation
from interreplay.unrolls.distances import UnrollDistance
from interreplay.unrolls.experience import UnrollExperience
from interreplay.unrolls.mixture import UnrollMix


class ActorLearner(TrainingLoop):
    """Unrolls of T steps are made with the networks of now, and batches of fresh and replayed ones learned from.

    Attributes:
        experience: What is learned from, and when.
        statistics: Of the batches.
    """

    experience: UnrollExperience

    @override(TrainingLoop)
    def _prepare(self) -> None:
        batch = self.config.train_batch_size_per_learner
        gaussian = self.learner.single_module.gaussian
        mix = self.config.make_mix(gaussian)
        mix.check(batch)
        self.experience = UnrollExperience(mix, batch, self.config.seed)
        self.statistics = UnrollStatistics(UnrollDistance(gaussian=gaussian))

    @property
    def replay_buffer(self) -> UnrollMix:
        """The mix of unrolls that is learned from."""
        return self.experience.mix

    @property
    def capacity(self) -> str:
        """What is stored by which rules, as text."""
        return json.dumps(self.config.replay_buffer_config, sort_keys=True)

    @property
    @override(TrainingLoop)
    def rows_per_update(self) -> int:
        return self.config.train_batch_size_per_learner * self.config.rollout_fragment_length

    @override(TrainingLoop)
    def _sample(self) -> None:
        """Add one unroll of every environment to the experience.

        Raises:
            EnvironmentFailure: An environment raised an error, or gave what cannot be stored.
            NonFiniteError: It gave numbers that are none.
        """
        runner: Any = self.env_runner
        try:
            unrolls = runner.unroll(self.config.rollout_fragment_length, self.learner.updates)
        except EnvironmentFailure as failure:
            raise failure.located(f"env step {self.env_steps + 1}") from failure.__cause__
        runner.take_cut_episodes()  # unrolls know no episodes that could be continued
        self.experience.add(unrolls)
        if self.config.normalize_observations:
            self.learner.observe(map_observation(lambda part: part[:-1][unrolls.live], unrolls.obs))
        if self.config.anneal_steps:
            self.experience.anneal(self.env_steps / self.config.anneal_steps)

    @override(TrainingLoop)
    def _update(self, batch: Any) -> None:
        version = self.learner.updates
        result = self.learner.update_from_unrolls(batch)
        self.statistics.observe(self.replay_buffer, batch, version, result.policy)
        self.experience.update(batch, result.policy, result.errors)
        aside = self.experience.to_refresh()
        if aside is not None:
            self.experience.mix.update(aside, self.learner.policy_of(aside))

    @override(TrainingLoop)
    def _runner_metrics(self) -> list[Any]:
        return [self.env_runner.get_metrics()]

    @override(TrainingLoop)
    def _described(self) -> dict[str, float]:
        return self.statistics.collect(self.replay_buffer)

    @override(TrainingLoop)
    def _parts_state(self) -> dict[str, Any]:
        return {"statistics": self.statistics.state_dict()}

    @override(TrainingLoop)
    def _load_parts_state(self, state: dict[str, Any]) -> None:
        self.statistics.load_state_dict(state["statistics"])
