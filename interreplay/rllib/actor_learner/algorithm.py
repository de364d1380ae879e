"""The training loop and the Learner of algorithms that learn from unrolls."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor

from interreplay.diagnostics.unroll_statistics import UnrollStatistics
from interreplay.learning.policy_gradient.impala import IMPALAUpdate, UnrollResult
from interreplay.rllib.actor_learner.collectors import AsyncCollector
from interreplay.rllib.algorithms.learner import BatchLearner
from interreplay.rllib.algorithms.loop import TrainingLoop
from interreplay.rllib.env_runner.remote import Collector, RemoteRunners
from interreplay.rllib.env_runner.wire_format import Packed, unpack_unrolls
from interreplay.rllib.host import override
from interreplay.transitions import map_observation
from interreplay.unrolls.distances import UnrollDistance
from interreplay.unrolls.experience import UnrollExperience
from interreplay.unrolls.mixture import UnrollMix
from interreplay.unrolls.unrolls import Unrolls

if TYPE_CHECKING:
    from interreplay.rllib.actor_learner.impala import ActorLearnerConfig


class UnrollLearner(BatchLearner):
    """Learns from `Unrolls` by the `IMPALAUpdate` that the configuration makes."""

    _update_rule: IMPALAUpdate

    @override(BatchLearner)
    def learn_from(self, batch: Unrolls) -> UnrollResult:
        return super().learn_from(batch.to(self._device))

    def policy_of(self, unrolls: Unrolls) -> Tensor:
        """Return the current policy's output for the observations of unrolls, ``(T, B, F)``."""
        return self._update_rule.policy(unrolls.to(self._device))


class ActorLearner(TrainingLoop):
    """Collects unrolls of T steps with the current networks, and learns from batches of fresh and replayed ones.

    Attributes:
        experience: The source of batches, which also determines when they are due.
        statistics: Statistics of the batches.
    """

    config: ActorLearnerConfig
    experience: UnrollExperience
    learner: UnrollLearner

    @override(TrainingLoop)
    def _prepare(self) -> None:
        self._collector = self._make_collector(unpack_unrolls)
        batch = self.config.train_batch_size_per_learner
        gaussian = self.learner.single_module.gaussian
        mix = self.config.make_mix(gaussian)
        mix.check(batch)
        self.experience = UnrollExperience(mix, batch, self.config.seed)
        self.statistics = UnrollStatistics(UnrollDistance(gaussian=gaussian))

    @override(TrainingLoop)
    def _make_collector(self, unpack: Callable[[Packed], Any]) -> Collector:
        if self.config.num_env_runners == 0 or self.config.sync:
            return super()._make_collector(unpack)
        return AsyncCollector(RemoteRunners(self.env_runner_group, self.config), self.learner, unpack, self.config)

    @property
    def replay_buffer(self) -> UnrollMix:
        """The mix of unrolls that batches come from."""
        return self.experience.mix

    @property
    def capacity(self) -> str:
        """Sources of the mix and their capacities, as text."""
        return json.dumps(self.config.replay_buffer_config, sort_keys=True)

    @property
    @override(TrainingLoop)
    def rows_per_update(self) -> int:
        return self.config.train_batch_size_per_learner * self.config.rollout_fragment_length

    @override(TrainingLoop)
    def _sample(self) -> None:
        self._store(self._collector.collect(partial(_make, self.config.rollout_fragment_length)))

    @override(TrainingLoop)
    def _add(self, rows: Unrolls) -> None:
        self.experience.add(rows)
        if self.config.normalize_observations:
            self.learner.observe(map_observation(lambda part: part[:-1][rows.live], rows.obs))

    @override(TrainingLoop)
    def _update(self, batch: Any) -> None:
        version = self.learner.updates
        result = self.learner.learn_from(batch)
        self.statistics.observe(self.replay_buffer, batch, version, result.policy)
        self.experience.update(batch, result.policy, result.errors)
        outdated = self.experience.to_refresh()
        if outdated is not None:
            self.experience.mix.update(outdated, self.learner.policy_of(outdated))

    @override(TrainingLoop)
    def _statistics(self) -> dict[str, float]:
        return self.statistics.collect(self.replay_buffer) | self._collector.statistics()

    @override(TrainingLoop)
    def _parts_state(self) -> dict[str, Any]:
        return {"statistics": self.statistics.state_dict()}

    @override(TrainingLoop)
    def _load_parts_state(self, state: dict[str, Any]) -> None:
        self.statistics.load_state_dict(state["statistics"])


def _make(steps: int, runner: Any, version: int) -> Any:
    """Let a runner make unrolls or gradients; a function of this module, so that requests are small when pickled."""
    return runner.make(steps, version)
