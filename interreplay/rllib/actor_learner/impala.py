"""IMPALA, CLEAR, LASER and A2C: their RLModule, configurations and Algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, ClassVar

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from typing_extensions import Self

from interreplay.errors import accepted_names
from interreplay.learning.algorithms_table import ALGORITHMS, FRESH, MIX
from interreplay.learning.architectures import ARCHITECTURES
from interreplay.learning.exploration import Sampled
from interreplay.learning.policy_gradient.impala import IMPALAUpdate
from interreplay.learning.policy_gradient.unroll_settings import (
    A2CSettings,
    CLEARSettings,
    IMPALASettings,
    LASERSettings,
)
from interreplay.learning.setting_fields import Whole, rate_at
from interreplay.rllib.actor_learner.algorithm import ActorLearner, UnrollLearner
from interreplay.rllib.actor_learner.unroll_runner import UnrollRunner
from interreplay.rllib.algorithms.loop_config import LoopConfig
from interreplay.rllib.algorithms.module import OffPolicyModule
from interreplay.rllib.algorithms.signatures import IMPALATraining
from interreplay.rllib.host import override
from interreplay.unrolls import schema
from interreplay.unrolls.mix_settings import STANDARD, make_mix
from interreplay.unrolls.mixture import UnrollMix


class ActorLearnerModule(OffPolicyModule):
    """A policy and its value function."""

    architecture = ARCHITECTURES["IMPALA"]


class ActorLearnerConfig(IMPALATraining, LoopConfig):
    """Settings shared by the algorithms that learn from unrolls; RLlib's name for T is ``rollout_fragment_length``.

    In each round, each environment returns an unroll of T steps. An update is made as soon as enough fresh unrolls are
    available. With ``num_env_runners=0``, unrolls are made in this process, otherwise by remote runners: synchronously
    if `sync`, else asynchronously with ``max_requests_in_flight_per_env_runner`` requests per runner.

    Attributes:
        trainer: Name in the table of algorithms.
    """

    settings_class: ClassVar[type] = IMPALASettings
    module_class = ActorLearnerModule
    update_class: ClassVar[Any] = IMPALAUpdate
    trainer: ClassVar[str]

    # Of `IMPALASettings`, set in the constructor.
    lr_end: float | None
    lr_power: float
    returns: str
    sync: bool

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class)
        self.env_runner_cls = UnrollRunner
        row = ALGORITHMS[self.trainer]
        self.rollout_fragment_length = row.of_run["rollout_fragment_length"]
        self.num_envs_per_env_runner = row.of_run["num_envs_per_worker"]
        self.replay_buffer_config = {"type": row.buffer, **row.buffer_args}
        self.max_requests_in_flight_per_env_runner = 2  # a runner has its next request when it has answered one
        # There are no connectors, whose states RLlib would collect from all runners, one after the other.
        self._dont_auto_sync_env_runner_states = True

    @override(LoopConfig)
    def replay(self, kind: str | Sequence[Any], **arguments: Any) -> Self:
        """Choose what is replayed in addition to fresh unrolls.

        Args:
            kind: "Fresh" for nothing, "UnrollMix" for a mix, or directly the sources of a mix, as `parameters`.
            **arguments: For a mix, ``parameters``: its sources, by the settings of `interreplay.unrolls.mix_settings`
                or by the original platform's schema, also as JSON; by default half fresh and half replayed.

        Raises:
            ValueError: The arguments are not a mix; states what is accepted.
        """
        return super().replay(kind, **arguments)

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

    def make_mix(self, gaussian: bool) -> UnrollMix:
        """Return the empty mix of unrolls.

        Args:
            gaussian: Whether policies return [mean; log std].
        """
        fresh = [{"type": "queue", "share": 1.0}]
        return make_mix(self.replay_buffer_config.get("parameters", fresh), gaussian)

    @override(LoopConfig)
    def validate(self) -> None:
        super().validate()
        self._check_setting("rollout_fragment_length", Whole(1))
        self._check_setting("max_requests_in_flight_per_env_runner", Whole(1))
        if not isinstance(self.exploration, Sampled):
            name = type(self.exploration).__name__
            raise ValueError(f"exploration is {name}; expected Sampled, ratios are of actions that the policy drew")
        if not (self.explore or self.in_evaluation):
            raise ValueError("explore is False; expected True, ratios are of actions that the policy drew")
        if self.returns == "gae" and self.replay_buffer_config["type"] != FRESH:
            raise ValueError("returns is 'gae' and unrolls are replayed; expected returns='vtrace' with replay")
        self._check_runners()

    def _check_runners(self) -> None:
        """Reject asynchronous runners with returns that require synchronous ones."""
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
        return self._is_annealed or isinstance(self.lr, list | tuple)

    @override(LoopConfig)
    def make_update(self, module: Any) -> IMPALAUpdate:
        own = self.settings_class(**{field.name: getattr(self, field.name) for field in fields(self.settings_class)})
        return self.update_class(module.nets, own, self.gamma, self.rates(0)["all"], self.grad_clip_by)

    @override(AlgorithmConfig)
    def get_default_learner_class(self) -> type:
        return UnrollLearner


class IMPALAConfig(ActorLearnerConfig):
    """V-trace on fresh and replayed unrolls, with the defaults of the paper (arXiv:1802.01561).

    ```python
    config = IMPALAConfig().environment("CartPole-v1").training(lr=1e-3, optimizer="Adam", optimizer_eps=1e-5)
    ```
    """

    settings_class = IMPALASettings
    trainer = "IMPALA"


class IMPALA(ActorLearner):
    """IMPALA."""

    config_class = IMPALAConfig


class CLEARConfig(IMPALAConfig):
    """IMPALA with CLEAR's cloning losses on replayed unrolls, half of each batch (arXiv:1811.11682)."""

    settings_class = CLEARSettings
    trainer = "CLEAR"


class CLEAR(IMPALA):
    """CLEAR."""

    config_class = CLEARConfig


class LASERConfig(IMPALAConfig):
    """IMPALA with LASER's choice of replayed steps, three quarters of each batch (arXiv:1909.11583).

    Actions in a Box need ``relevance_of="behavior"``: the implied policy of normal distributions has no closed form.
    """

    settings_class = LASERSettings
    trainer = "LASER"


class LASER(IMPALA):
    """LASER."""

    config_class = LASERConfig


class A2CConfig(ActorLearnerConfig):
    """Synchronous advantage actor-critic: IMPALA's update of short unrolls, without ratios and without replay."""

    settings_class = A2CSettings
    trainer = "A2C"


class A2C(ActorLearner):
    """A2C."""

    config_class = A2CConfig
