"""The training loop of algorithms that learn from unrolls."""

from __future__ import annotations

import json
from typing import Any

from ray.rllib.utils.annotations import override

from interreplay.diagnostics.unroll_statistics import UnrollStatistics
from interreplay.rllib.actor_learner.collectors import UnrollCollector, make_collector
from interreplay.rllib.algorithms.loop import TrainingLoop
from interreplay.transitions import map_observation
from interreplay.unrolls.distances import UnrollDistance
from interreplay.unrolls.experience import UnrollExperience
from interreplay.unrolls.mixture import UnrollMix
from interreplay.unrolls.unrolls import Unrolls


class ActorLearner(TrainingLoop):
    """Unrolls of T steps are made with the networks of now, and batches of fresh and replayed ones learned from.

    Attributes:
        experience: What is learned from, and when.
        statistics: Of the batches.
    """

    experience: UnrollExperience
    _collector: UnrollCollector

    @override(TrainingLoop)
    def _prepare(self) -> None:
        self._collector = self._make_collector()
        batch = self.config.train_batch_size_per_learner
        gaussian = self.learner.single_module.gaussian
        mix = self.config.make_mix(gaussian)
        mix.check(batch)
        self.experience = UnrollExperience(mix, batch, self.config.seed)
        self.statistics = UnrollStatistics(UnrollDistance(gaussian=gaussian))

    def _make_collector(self) -> UnrollCollector:
        return make_collector(self.config, self.env_runner_group, self.learner)

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
        self._take(self._collector.collect(self.config.rollout_fragment_length))

    @override(TrainingLoop)
    def _add(self, rows: Unrolls) -> None:
        self.experience.add(rows)
        if self.config.normalize_observations:
            self.learner.observe(map_observation(lambda part: part[:-1][rows.live], rows.obs))

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
    def _described(self) -> dict[str, float]:
        return self.statistics.collect(self.replay_buffer) | self._collector.statistics()

    @override(TrainingLoop)
    def _parts_state(self) -> dict[str, Any]:
        return {"statistics": self.statistics.state_dict()}

    @override(TrainingLoop)
    def _load_parts_state(self, state: dict[str, Any]) -> None:
        self.statistics.load_state_dict(state["statistics"])
