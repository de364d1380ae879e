"""Learner, configuration and training loop of algorithms that learn from unrolls."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, ClassVar, cast

from ray.rllib.utils.annotations import override

from interreplay.diagnostics.unroll_statistics import UnrollStatistics
from interreplay.environments.registration import inner_env_name
from interreplay.errors import NonFiniteError, accepted_names
from interreplay.learning.algorithms_table import ALGORITHMS, FRESH, MIX
from interreplay.learning.exploration import Sampled
from interreplay.learning.policy_gradient.impala import IMPALAUpdate
from interreplay.learning.policy_gradient.unroll_settings import IMPALASettings
from interreplay.learning.setting_fields import WholeNumber, rate_at
from interreplay.rllib.actor_learner.unroll_runner import UnrollRunner
from interreplay.rllib.algorithms.learner import BatchLearner
from interreplay.rllib.algorithms.loop import TrainingLoop
from interreplay.rllib.algorithms.loop_config import LoopConfig
from interreplay.rllib.algorithms.signatures import IMPALATraining
from interreplay.rllib.env_runner.remote import AsyncCollector, Collector, FromColumns, RemoteRunners
from interreplay.transitions import map_observation
from interreplay.unrolls import schema
from interreplay.unrolls.distances import UnrollDistance
from interreplay.unrolls.mix_settings import STANDARD, make_mix
from interreplay.unrolls.mixture import UnrollExperience, UnrollMix
from interreplay.unrolls.unrolls import Unrolls, from_columns


class ActorLearnerConfig(IMPALATraining, LoopConfig):
    """Settings shared by the algorithms that learn from unrolls; RLlib's name for T is ``rollout_fragment_length``.

    In each round, each environment returns an unroll of T steps. An update is made as soon as enough fresh unrolls are
    available. With ``num_env_runners=0``, unrolls are made in this process, otherwise by remote runners: synchronously
    if `sync`, else asynchronously with ``max_requests_in_flight_per_env_runner`` requests per runner.
    """

    settings_class: ClassVar[type] = IMPALASettings
    learner_class: ClassVar[type] = BatchLearner
    runner_class = UnrollRunner
    trainer = "IMPALA"
    update_class: ClassVar[Any] = IMPALAUpdate

    # Fields of `IMPALASettings`, set in the constructor.
    caching: bool
    lr_end: float | None
    lr_power: float
    returns: str
    sync: bool

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class)
        row = ALGORITHMS[self.trainer]
        self.rollout_fragment_length = row.of_run["rollout_fragment_length"]
        self.num_envs_per_env_runner = row.of_run["num_envs_per_worker"]
        self.max_requests_in_flight_per_env_runner = 2  # a runner has its next request when it answers one
        # There are no connectors; RLlib would collect their states from all runners, one after the other.
        self._dont_auto_sync_env_runner_states = True

    @override(LoopConfig)
    def build_algo(self, env: Any = None, use_copy: bool = True) -> ActorLearner:
        """Return the algorithm, ready to train; arguments as in RLlib."""
        return cast(ActorLearner, super().build_algo(env, use_copy=use_copy))

    @override(LoopConfig)
    def _replayed(self, kind: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        if isinstance(kind, str) and kind.isidentifier() and kind not in (FRESH, MIX):
            raise ValueError(f"{kind!r} replays no unrolls; expected {FRESH!r}, {MIX!r} or a list of sources")
        if not isinstance(kind, str) or kind not in (FRESH, MIX):
            arguments = {"parameters": kind, **arguments}
            kind = MIX
        known = ["parameters"] if kind == MIX else []
        for name in arguments:
            if name not in known:
                raise ValueError(f"{kind} takes no argument {name!r}; {accepted_names(name, known)}")
        if kind == FRESH:
            return {"type": FRESH}
        return {"type": MIX, "parameters": schema.read(arguments.get("parameters", list(STANDARD)))}

    @override(LoopConfig)
    def validate(self) -> None:
        super().validate()
        self._check_setting("rollout_fragment_length", WholeNumber(1))
        self._check_setting("max_requests_in_flight_per_env_runner", WholeNumber(1))
        if not isinstance(self.exploration, Sampled):
            name = type(self.exploration).__name__
            raise ValueError(f"exploration is {name}; expected Sampled, ratios require actions drawn by the policy")
        if not (self.explore or self.in_evaluation):
            raise ValueError("explore is False; expected True, ratios require actions drawn by the policy")
        if self.returns == "gae" and self.replay_buffer_config["type"] != FRESH:
            raise ValueError("returns is 'gae' and unrolls are replayed; expected returns='vtrace' with replay")
        self._check_runners()

    def _check_runners(self) -> None:
        """Reject asynchronous runners if the returns require synchronous ones."""
        if self.returns == "gae" and self.num_env_runners > 0 and not self.sync:
            raise ValueError("returns is 'gae' and sync is False; expected sync=True, or returns='vtrace'")

    @override(LoopConfig)
    def rates(self, env_steps: int) -> dict[str, float]:
        start = rate_at(self.lr, env_steps)
        if not self._is_annealed or self.lr_end is None or self.anneal_steps is None:
            return {"all": start}
        left = max(0.0, 1.0 - env_steps / self.anneal_steps)
        return {"all": (start - self.lr_end) * left**self.lr_power + self.lr_end}

    @property
    def _is_annealed(self) -> bool:
        """Whether the learning rate falls to `lr_end` over the run."""
        return self.lr_end is not None and bool(self.anneal_steps) and not isinstance(self.lr, list | tuple)

    @property
    @override(LoopConfig)
    def has_schedules(self) -> bool:
        return self._is_annealed or super().has_schedules

    @override(LoopConfig)
    def make_update(self, module: Any) -> IMPALAUpdate:
        return self.update_class(module.nets, self.update_settings(), self.gamma, self.rates(0)["all"])


class ActorLearner(TrainingLoop):
    """Collects unrolls of T steps with the current networks, and learns from batches of fresh and replayed ones.

    Attributes:
        statistics: Statistics of the batches.
    """

    config: ActorLearnerConfig
    experience: UnrollExperience
    learner: BatchLearner

    @override(TrainingLoop)
    def _prepare(self) -> None:
        self._collector = self._make_collector(from_columns)
        batch = self.config.train_batch_size_per_learner
        gaussian = self.learner.single_module.policy.gaussian
        mix = self._ready_source
        if mix is None:
            entries = self.config.replay_buffer_config.get("parameters", [{"type": "queue", "share": 1.0}])
            mix = make_mix(entries, gaussian, self.config.caching)
        mix.check(batch)
        self.experience = UnrollExperience(mix, batch, self.config.seed)
        self.statistics = UnrollStatistics(UnrollDistance(gaussian=gaussian))
        self._parts = {"statistics": self.statistics}

    @override(TrainingLoop)
    def _make_collector(self, from_columns: FromColumns) -> Collector:
        if self.config.num_env_runners == 0 or self.config.sync:
            return super()._make_collector(from_columns)
        runners = RemoteRunners(self.env_runner_group, self.config)
        return AsyncCollector(runners, self.learner, from_columns, self.config)

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
        try:
            self.experience.add(rows)
        except NonFiniteError as error:
            env = inner_env_name(self.config.env, self.config.env_config)
            place = f"{error.at}, after env step {self.env_steps} of {env}"
            raise NonFiniteError(error.column, error.row, error.value, at=place) from None
        if self.config.normalize_observations:
            self.learner.observe(map_observation(lambda part: part[:-1][rows.live], rows.obs))

    @override(TrainingLoop)
    def _update(self, batch: Any) -> None:
        version = self.learner.updates
        result = self.learner.learn_from(batch)
        self.statistics.observe(self.replay_buffer, batch, version, result.policy)
        self.replay_buffer.update(batch, result.policy, result.errors)
        outdated = self.replay_buffer.to_refresh(self.experience.rng)
        if outdated is not None:
            current = self.learner.update_rule.policy(outdated.to(self.learner._device))
            self.replay_buffer.update(outdated, current)

    @override(TrainingLoop)
    def _statistics(self) -> dict[str, float]:
        return self.statistics.collect(self.replay_buffer) | self._collector.statistics()


def _make(steps: int, runner: Any, version: int) -> Any:
    """Make unrolls or gradients with a runner; a function of this module, so that pickled requests are small."""
    return runner.make(steps, version)
