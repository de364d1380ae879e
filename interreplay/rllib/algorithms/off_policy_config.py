"""What the configurations of all our algorithms have in common."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any, ClassVar

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.rllib.utils.annotations import override
from ray.util.debug import log_once
from typing_extensions import Self

from interreplay.catalogue import Kind, check_arguments, resolve
from interreplay.learning.exploration import Exploration, Gaussian
from interreplay.learning.settings import ActorCriticSettings, LoopSettings
from interreplay.learning.update import Update
from interreplay.settings import accepted_by, check_known, defaults

RLLIB_NAMES = {
    "train_batch_size": "train_batch_size_per_learner",
    "learning_starts": "num_steps_sampled_before_learning_starts",
}
"""Settings that have a name of RLlib's."""


class OffPolicyConfig(AlgorithmConfig):
    """Settings shared by the off-policy algorithms, with RLlib's names where RLlib has one.

    Each is a field of `LoopSettings` or of the algorithm's own dataclass: an attribute here, an argument of `training`.

    Attributes:
        settings_class: Dataclass of the algorithm's own settings.
        module_class: RLModule with its networks.
        exploration: How the policy acts while it trains; each runner has a copy of its own.
    """

    settings_class: ClassVar[type] = ActorCriticSettings
    module_class: ClassVar[type]

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class)
        from interreplay.rllib.env_runner.runner import ColumnRunner

        self.env_runner_cls = ColumnRunner
        self.rollout_fragment_length = 1
        for name, default in (defaults(LoopSettings) | defaults(self.settings_class)).items():
            setattr(self, RLLIB_NAMES.get(name, name), default)
        self.exploration: Exploration = Gaussian(1.0)
        self.replay_buffer_config: dict[str, Any] = {"type": "Uniform"}
        self.evaluation_duration = 10
        self.evaluation_config = {"explore": False, "num_envs_per_env_runner": 1}
        self.metrics_num_episodes_for_smoothing = 10
        self.min_time_s_per_iteration = 0
        self.min_sample_timesteps_per_iteration = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Give `training` of the class the signature of its settings."""
        super().__init_subclass__(**kwargs)
        if "training" not in vars(cls):
            cls.training = _training_of(cls)  # type: ignore[method-assign]

    def replay(self, kind: Kind, **arguments: Any) -> Self:
        """Choose the replay buffer.

        Args:
            kind: Name in the catalogue such as ``"NMER"``, a class, or any factory of a `ReplayBuffer`.
            **arguments: Its arguments. ``seed``, ``n_step``, ``gamma`` and ``device`` follow this
                configuration where they are not given.

        Raises:
            ValueError: When the name or an argument is unknown, with the nearest valid one.
        """
        check_arguments(resolve(kind), arguments)
        self.replay_buffer_config = {"type": kind, **arguments}
        return self

    @classmethod
    def own_settings(cls) -> dict[str, Any]:
        """Return the fields of the loop's and the algorithm's settings by the names that they have here."""
        found = (*fields(LoopSettings), *fields(cls.settings_class))
        return {RLLIB_NAMES.get(field.name, field.name): field for field in found}

    @override(AlgorithmConfig)
    def training(self, *, replay_buffer_config: dict[str, Any] | Any = NotProvided, **settings: Any) -> Self:
        """Set training options: those of the class, and RLlib's.

        ``replay_buffer_config={"type": name, **arguments}`` is the same as `replay`.

        Raises:
            TypeError: For a setting that there is not, with the nearest name.
        """
        own = self.own_settings()
        of_rllib = {name: value for name, value in settings.items() if name not in own}
        check_known(f"{type(self).__name__}.training", of_rllib, [*own, *_rllib_settings()])
        super().training(**of_rllib)
        for name, value in settings.items():
            if name in own and value is not NotProvided:
                setattr(self, name, value)
        if replay_buffer_config is not NotProvided:
            arguments = dict(replay_buffer_config)
            self.replay(arguments.pop("type", self.replay_buffer_config["type"]), **arguments)
        return self

    @override(AlgorithmConfig)
    def validate(self) -> None:
        if self.in_evaluation and self.evaluation_duration_unit == "episodes":
            self.metrics_num_episodes_for_smoothing = int(self.evaluation_duration)
        if self.min_sample_timesteps_per_iteration:
            self.steps_per_iteration = int(self.min_sample_timesteps_per_iteration)
            self.min_sample_timesteps_per_iteration = 0
        # RLlib would advise to go back to a stack that this algorithm does not have.
        log_once(f"{self.algo_class.__name__}_on_new_api_stack")
        super().validate()
        for name, field in self.own_settings().items():
            self._check_setting(name, accepted_by(field))
        if self.num_learners > 0:
            raise ValueError(f"num_learners is {self.num_learners}; expected 0, the learner runs beside the buffer")
        capacity = self.replay_buffer_config.get("capacity")
        if capacity is not None and capacity < self.train_batch_size_per_learner:
            raise ValueError(
                f"capacity is {capacity}; expected at least the batch size {self.train_batch_size_per_learner}"
            )

    def _check_setting(self, name: str, accepts: Any) -> None:
        value = getattr(self, name)
        if not accepts.admits(value):
            raise ValueError(f"{name} is {value!r}; expected {accepts.described}")

    def make_update(self, module: RLModule) -> Update:
        """Return the update of this algorithm for a module."""
        raise NotImplementedError

    def update_settings(self) -> dict[str, Any]:
        """Return the arguments that the updates of all actor-critic algorithms take."""
        names = ("actor_lr", "critic_lr", "tau", "actor_l2", "critic_l2", "huber_delta", "grad_clip")
        return {name: getattr(self, name) for name in names}

    @override(AlgorithmConfig)
    def get_default_rl_module_spec(self) -> RLModuleSpec:
        return RLModuleSpec(module_class=self.module_class)

    @override(AlgorithmConfig)
    def get_default_learner_class(self) -> type:
        from interreplay.rllib.algorithms.learner import OffPolicyLearner

        return OffPolicyLearner

    @override(AlgorithmConfig)
    def get_state(self) -> dict[str, Any]:
        # RLlib's leaves out whatever equals -1, its mark of retired settings; a target entropy may be just that.
        ours = vars(self).keys() - vars(AlgorithmConfig()).keys()
        return {name: getattr(self, name) for name in ours} | super().get_state()

    @property
    @override(AlgorithmConfig)
    def _model_config_auto_includes(self) -> dict[str, Any]:
        return super()._model_config_auto_includes | {
            "hiddens": list(self.hiddens),
            "matrix_dtype": self.matrix_dtype,
            "noise_scale": self.exploration.sigma,
        }


def _rllib_settings() -> list[str]:
    """Names of what RLlib's own `training` takes."""
    return [name for name in inspect.signature(AlgorithmConfig.training).parameters if name != "self"]


def _training_of(cls: type[OffPolicyConfig]) -> Any:
    """Return the inherited `training` with the settings of a class in its signature and documentation."""
    inherited = cls.training

    def training(self: OffPolicyConfig, **settings: Any) -> OffPolicyConfig:
        return inherited(self, **settings)

    own = cls.own_settings()
    kind = inspect.Parameter.KEYWORD_ONLY
    listed = [inspect.Parameter(name, kind, default=NotProvided, annotation=f.type) for name, f in own.items()]
    buffer = inspect.Parameter("replay_buffer_config", kind, default=NotProvided)
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    more = inspect.Parameter("settings", inspect.Parameter.VAR_KEYWORD)
    training.__signature__ = inspect.Signature([first, *listed, buffer, more])  # type: ignore[attr-defined]
    told = [
        f"    {name}: {f.metadata['help']} (default: {f.default}; {accepted_by(f).described})."
        for name, f in own.items()
    ]
    head = "Set training options: these, `replay_buffer_config`, and RLlib's own.\n\nArgs:\n"
    training.__doc__ = head + "\n".join(told)
    training.__qualname__ = f"{cls.__name__}.training"
    return training
