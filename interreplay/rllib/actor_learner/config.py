"""What the configurations of algorithms that learn from unrolls have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, ClassVar

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.utils.annotations import override
from typing_extensions import Self

from interreplay.errors import accepted_names
from interreplay.learning.algorithms_table import ALGORITHMS, FRESH, MIX
from interreplay.learning.exploration import Sampled
from interreplay.learning.policy_gradient.impala import IMPALAUpdate
from interreplay.learning.policy_gradient.unroll_settings import IMPALASettings
from interreplay.learning.setting_fields import Whole, rate_at
from interreplay.rllib.actor_learner.module import ActorLearnerModule
from interreplay.rllib.algorithms.loop_config import LoopConfig
from interreplay.unrolls import schema
from interreplay.unrolls.mix_settings import STANDARD, make_mix
from interreplay.unrolls.mixture import UnrollMix


class ActorLearnerConfig(LoopConfig):
    """Settings shared by the algorithms that learn from unrolls; RLlib's name for T is ``rollout_fragment_length``.

    Each environment gives an unroll of T steps in a round; an update is made as soon as enough fresh ones wait. With
    ``num_env_runners`` 0 they are made in this process, else by runners in others: in step where `sync` is true, else
    as they come, with ``max_requests_in_flight_per_env_runner`` requests on the way to each.

    Attributes:
        trainer: Name in the table of algorithms.
    """

    settings_class: ClassVar[type] = IMPALASettings
    module_class = ActorLearnerModule
    update_class: ClassVar[Any] = IMPALAUpdate
    trainer: ClassVar[str]

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class)
        from interreplay.rllib.actor_learner.unroll_runner import UnrollRunner

        self.env_runner_cls = UnrollRunner
        row = ALGORITHMS[self.trainer]
        self.rollout_fragment_length = row.of_run["rollout_fragment_length"]
        self.num_envs_per_env_runner = row.of_run["num_envs_per_worker"]
        self.replay_buffer_config = {"type": row.buffer, **row.buffer_args}
        self.max_requests_in_flight_per_env_runner = 2  # a runner has the next one when it has answered
        # There are no connectors whose states RLlib would have to collect from all runners, one after the other.
        self._dont_auto_sync_env_runner_states = True

    @override(LoopConfig)
    def replay(self, kind: str | Sequence[Any], **arguments: Any) -> Self:
        """Choose what is replayed beside fresh unrolls.

        Args:
            kind: "Fresh" for nothing, "UnrollMix" for a mix, or at once the sources of one, as `parameters`.
            **arguments: Of a mix ``parameters``: its sources, by the settings of `interreplay.unrolls.mix_settings` or
                by the original platform's schema, also as JSON; half fresh and half replayed by default.

        Raises:
            ValueError: When they make no mix, with what would be accepted.
        """
        return super().replay(kind, **arguments)

    @override(LoopConfig)
    def _replayed(self, kind: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        if isinstance(kind, str) and kind.isidentifier() and kind not in (FRESH, MIX):
            raise ValueError(f"{kind!r} replays no unrolls; expected {FRESH!r}, {MIX!r} or a list of sources")
        if not isinstance(kind, str) or kind not in (FRESH, MIX):
            kind, arguments = MIX, {"parameters": kind, **arguments}
        known = ["parameters"] if kind == MIX else []
        for name in arguments:
            if name not in known:
                raise ValueError(f"{kind} takes no argument {name!r}; {accepted_names(name, known)}")
        mix = {"parameters": schema.read(arguments.get("parameters", list(STANDARD)))} if kind == MIX else {}
        return {"type": kind, **mix}

    def make_mix(self, gaussian: bool) -> UnrollMix:
        """Return what is learned from, still empty.

        Args:
            gaussian: Whether policies give [mean; log std].
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
        """Refuse runners in other processes that do not fit the returns."""
        if self.returns == "gae" and self.num_env_runners > 0 and not self.sync:
            raise ValueError("returns is 'gae' and sync is False; expected sync=True, or returns='vtrace'")

    @override(LoopConfig)
    def rates(self, env_steps: int) -> dict[str, float]:
        start = rate_at(self.lr, env_steps)
        if not self._falls:
            return {"all": start}
        left = max(0.0, 1.0 - env_steps / self.anneal_steps)
        return {"all": (start - self.lr_end) * left**self.lr_power + self.lr_end}

    @property
    def _falls(self) -> bool:
        """Whether the learning rate falls to `lr_end` over the run."""
        return self.lr_end is not None and bool(self.anneal_steps) and not isinstance(self.lr, list | tuple)

    @property
    @override(LoopConfig)
    def has_schedules(self) -> bool:
        return self._falls or isinstance(self.lr, list | tuple)

    @override(LoopConfig)
    def make_update(self, module: RLModule) -> IMPALAUpdate:
        own = self.settings_class(**{field.name: getattr(self, field.name) for field in fields(self.settings_class)})
        return self.update_class(module.nets, own, self.gamma, self.rates(0)["all"], self.grad_clip_by)

    @override(AlgorithmConfig)
    def get_default_learner_class(self) -> type:
        from interreplay.rllib.actor_learner.learner import UnrollLearner

        return UnrollLearner
