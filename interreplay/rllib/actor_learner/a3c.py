"""A3C: runners compute gradients of their own unrolls, and the learner applies them as they arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from ray.rllib.utils.annotations import override
from torch import Tensor

from interreplay.learning.algorithms_table import FRESH
from interreplay.learning.policy_gradient.impala import IMPALAUpdate
from interreplay.learning.policy_gradient.unroll_settings import A3CSettings
from interreplay.rllib.actor_learner.algorithm import ActorLearner, ActorLearnerConfig
from interreplay.rllib.actor_learner.unroll_runner import UnrollRunner
from interreplay.rllib.algorithms.learner import BatchLearner
from interreplay.rllib.env_runner.remote import Collector, FromColumns
from interreplay.transitions import to_arrays, to_tensors
from interreplay.unrolls.mixture import UnrollExperience


class Gradients(NamedTuple):
    """The gradient ``(P,)`` of all parameters that a runner computed from its unrolls, before clipping."""

    gradient: Tensor
    metrics: Tensor  # of `IMPALAUpdate.metrics`
    env_steps: Tensor  # number of env steps, ``()``
    version: Tensor  # number of updates that produced the weights, ``()``

    def columns(self) -> dict[str, Tensor]:
        """Return the tensors by name."""
        return self._asdict()


class GradientRunner(UnrollRunner):
    """A runner that returns gradients instead of unrolls."""

    _update_rule: IMPALAUpdate | None = None

    @override(UnrollRunner)
    def make(self, steps: int, version: int) -> Gradients:
        unrolls = self.unroll(steps, version)
        unrolls.check_finite()
        if self._update_rule is None:
            self._update_rule = self.config.make_update(self.module)
        metrics = self._update_rule.differentiate(unrolls.to(self._device)).metrics
        gradient = torch.cat([parameter.grad.reshape(-1) for parameter in self._update_rule.parameters])
        return Gradients(gradient, metrics, torch.tensor(unrolls.env_steps), torch.tensor(version))


class GradientExperience(UnrollExperience):
    """The gradients that have arrived and are not yet applied; nothing is replayed."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self._waiting: list[Gradients] = []

    @override(UnrollExperience)
    def add(self, unrolls: Any) -> None:
        self._waiting.append(unrolls)
        self.env_steps += int(unrolls.env_steps)

    @override(UnrollExperience)
    def batches(self, stop: Callable[[], bool] = lambda: False) -> Iterator[Any]:
        while not stop() and self._waiting:
            yield self._waiting.pop(0)

    @override(UnrollExperience)
    def state_dict(self) -> dict[str, Any]:
        waiting = []
        for gradients in self._waiting:
            waiting.append(to_arrays(gradients.columns()))
        return super().state_dict() | {"waiting": waiting}

    @override(UnrollExperience)
    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._waiting = []
        for columns in state["waiting"]:
            self._waiting.append(Gradients(**to_tensors(columns)))


class GradientLearner(BatchLearner):
    """Learner that applies gradients computed by runners."""

    def apply(self, gradients: Gradients) -> None:
        """Make one step with clipped gradients."""
        rule = self.update_rule
        sizes = [parameter.numel() for parameter in rule.parameters]
        parts = gradients.gradient.to(self._device).split(sizes)
        for parameter, part in zip(rule.parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)
        rule.step()
        self.count(gradients.metrics.to(self._device))


class A3CConfig(ActorLearnerConfig):
    """Advantage actor-critic. Runners compute gradients with possibly outdated weights (arXiv:1602.01783).

    A gradient is computed from the unrolls of all environments of a runner, so ``train_batch_size`` is the number
    of these environments. With ``num_env_runners=0``, this process computes it with the newest weights, which is A2C.

    Examples:
        >>> from interreplay.rllib import A3CConfig
        >>> config = A3CConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
        >>> config = config.training(lr=1e-3, steps_per_iteration=1_000)
        >>> algorithm = config.build_algo()
        >>> result = algorithm.train()
        >>> algorithm.env_steps >= 1_000
        True
        >>> algorithm.stop()
    """

    settings_class = A3CSettings
    learner_class = GradientLearner
    runner_class = GradientRunner
    trainer = "A3C"

    @override(ActorLearnerConfig)
    def _check_runners(self) -> None:
        if self.train_batch_size_per_learner == A3CSettings().train_batch_size:
            self.training(train_batch_size_per_learner=self.num_envs_per_env_runner)
        if self.train_batch_size_per_learner != self.num_envs_per_env_runner and not self.in_evaluation:
            raise ValueError(
                f"train_batch_size is {self.train_batch_size_per_learner}; expected {self.num_envs_per_env_runner}, "
                "the number of environments of a runner, from which A3C computes one gradient; omit train_batch_size"
            )
        if self.normalize_observations:
            raise ValueError("normalize_observations is True; expected False, A3C's learner receives no observations")
        if self.replay_buffer_config["type"] != FRESH:
            raise ValueError("A3C replays nothing; expected IMPALA, CLEAR or LASER for a mix of unrolls")


class A3C(ActorLearner):
    """Asynchronous advantage actor-critic, configured by `A3CConfig`."""

    config_class = A3CConfig
    learner: GradientLearner

    @override(ActorLearner)
    def _prepare(self) -> None:
        super()._prepare()
        self.experience = GradientExperience(self.replay_buffer, self.experience.batch_size, self.config.seed)
        self._lags: list[int] = []

    @override(ActorLearner)
    def _make_collector(self, from_columns: FromColumns) -> Collector:
        return super()._make_collector(lambda columns: Gradients(**columns))

    @override(ActorLearner)
    def _add(self, rows: Any) -> None:
        self.experience.add(rows)

    @override(ActorLearner)
    def _update(self, batch: Gradients) -> None:
        self._lags.append(self.learner.updates - int(batch.version))
        self.learner.apply(batch)

    @override(ActorLearner)
    def _statistics(self) -> dict[str, float]:
        lags = self._lags or [0]
        self._lags = []
        return {"lag_mean": sum(lags) / len(lags), "lag_max": float(max(lags))} | self._collector.statistics()
