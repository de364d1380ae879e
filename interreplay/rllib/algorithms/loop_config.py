"""What the configurations of all our algorithms have in common, whatever they learn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from ray.rllib.utils.annotations import override
from ray.tune.result import STDERR_FILE, STDOUT_FILE, TRIAL_INFO
from ray.util.debug import log_once
from typing_extensions import Self

from interreplay.acting.actions import check_action_space
from interreplay.learning.exploration import Exploration, Sampled, make_exploration
from interreplay.learning.setting_fields import OrWord, Rate, Whole, accepted_by, defaults
from interreplay.learning.settings import LoopSettings
from interreplay.rllib.algorithms.host_checks import (
    adopt_iteration_lengths,
    adopt_model_settings,
    check_host,
    wants_normalization,
)
from interreplay.rllib.algorithms.learning_rates import LearningRates
from interreplay.rllib.algorithms.module import OffPolicyModule
from interreplay.rllib.algorithms.rllib_names import explained, understood
from interreplay.rllib.algorithms.rllib_settings import (
    MORE,
    TABLE,
    check_rllib_settings,
    names_of_rllib,
    settings_as_properties,
    training_of,
)
from interreplay.rllib.search_spaces import choices, has_search_space, is_search_space, with_choices

BATCH_SIZES = ("train_batch_size", "train_batch_size_per_learner")
KEYS_OF_DICTIONARIES = ("multiagent", "simple_optimizer", "_enable_new_api_stack", TRIAL_INFO, STDOUT_FILE, STDERR_FILE)
"""Keys that RLlib and Tune add to configurations as dictionaries, and that are not attributes."""
RLLIB_NAMES = {"learning_starts": "num_steps_sampled_before_learning_starts"}
"""Settings that have a name of RLlib's."""


class LoopConfig(LearningRates, AlgorithmConfig):
    """Settings shared by all our algorithms, with RLlib's names where RLlib has one.

    Each is a field of `loop_class` or of the algorithm's own dataclass: an attribute here, an argument of `training`.

    Attributes:
        loop_class: Dataclass of the loop's settings.
        settings_class: Dataclass of the algorithm's own settings.
        module_class: RLModule with its networks.
        update_class: The update of the algorithm; a user's own derives from it.
        algorithm_class: The Algorithm that names this configuration, alone in a tuple: Ray walks through classes that
            are attributes of classes, and would run in a circle.
        exploration: How the policy acts while it trains, a part of `interreplay.learning.exploration`, its name, or a
            mapping such as ``{"type": "Gaussian", "sigma": 0.1}``; each runner has a copy of its own. Schedules such as
            that of `EpsilonGreedy` run over `anneal_steps`.
        train_batch_size: Rows, or unrolls, per update, also by RLlib's longer name ``train_batch_size_per_learner``.
        trained_rows_per_iteration: Rows that a `train()` learns from at least; RLlib's
            ``min_train_timesteps_per_iteration`` sets it. Iterations last for further `steps_per_iteration` until then.
        evaluation_max_episode_steps: Steps after which an episode of an evaluation is cut; None for 10,000 where the
            environment has no time limit.
    """

    loop_class: ClassVar[type] = LoopSettings
    settings_class: ClassVar[type]
    module_class: ClassVar[type[OffPolicyModule]]
    update_class: ClassVar[Any]
    algorithm_class: ClassVar[tuple[type, ...]] = ()

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or next(iter(self.algorithm_class), None))
        from interreplay.rllib.env_runner.runner import BatchEnvRunner

        self.env_runner_cls = BatchEnvRunner
        self.rollout_fragment_length = 1
        self.lr: Any = None
        for name, default in (defaults(self.loop_class) | defaults(self.settings_class)).items():
            setattr(self, RLLIB_NAMES.get(name, name), default)
        self.exploration: Any = Sampled()
        self.trained_rows_per_iteration = 0
        self.evaluation_max_episode_steps: int | None = None
        self.sample_timeout_s = 300.0
        # What is replayed; see `replay`.
        self.replay_buffer_config: dict[str, Any] = {}
        self.evaluation_duration = 10
        self.evaluation_config = {"explore": False, "num_envs_per_env_runner": 1}
        self.metrics_num_episodes_for_smoothing = 10
        self.min_time_s_per_iteration = 0
        self.min_train_timesteps_per_iteration = 0
        self.min_sample_timesteps_per_iteration = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Give `training` of the class the signature of its settings."""
        super().__init_subclass__(**kwargs)
        if "training" not in vars(cls):
            cls.training = training_of(cls)  # type: ignore[method-assign]

    def replay(self, kind: Any, **arguments: Any) -> Self:
        """Choose what is replayed.

        Args:
            kind: Its name, or what else the algorithm accepts, or a search space of Tune over these.
            **arguments: Its arguments, also as search spaces.

        Raises:
            ValueError: When the name or an argument is unknown, with the nearest valid one.
        """
        if is_search_space(kind):
            for choice in choices(kind):
                self._replayed(choice, arguments)
            self.replay_buffer_config = {"type": kind, **arguments}
        else:
            self.replay_buffer_config = self._replayed(kind, arguments)
        return self

    def _replayed(self, kind: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the settings ``{"type": name, **arguments}`` of what is replayed."""
        raise NotImplementedError

    @classmethod
    def own_settings(cls) -> dict[str, Any]:
        """Return the fields of the loop's and the algorithm's settings by the names that they have here."""
        found = (*fields(cls.loop_class), *fields(cls.settings_class))
        return {RLLIB_NAMES.get(field.name, field.name): field for field in found}

    @override(AlgorithmConfig)
    def training(
        self,
        *,
        exploration: Exploration | dict[str, Any] | str | Any = NotProvided,
        replay_buffer_config: dict[str, Any] | Any = NotProvided,
        **settings: Any,
    ) -> Self:
        """Set training options: those of the class, and RLlib's.

        ``replay_buffer_config={"type": name, **arguments}`` is the same as `replay`; `exploration` as in the class.

        Settings may have RLlib's names, see `interreplay.rllib.algorithms.rllib_names`.

        Raises:
            TypeError: For settings that do not exist or are rejected, all in one message.
        """
        own = self.own_settings()
        known = [*own, *MORE, *names_of_rllib()]
        settings = {RLLIB_NAMES.get(name, name): value for name, value in settings.items()}
        settings, unknown, rejected = understood(self, settings, known, TABLE["refused"])
        sizes = [settings[name] for name in BATCH_SIZES if name in settings]
        if len(sizes) == 2 and sizes[0] != sizes[1]:
            rejected.append(f"train_batch_size={sizes[0]!r} with train_batch_size_per_learner={sizes[1]!r} (set one)")
        if unknown or rejected:
            raise TypeError(explained(f"{type(self).__name__}.training", unknown, rejected, known))
        super().training(**{name: value for name, value in settings.items() if name not in own})
        for name, value in settings.items():
            if name in own:
                setattr(self, name, value)
        if exploration is not NotProvided:
            self.exploration = exploration
        if replay_buffer_config is not NotProvided:
            if is_search_space(replay_buffer_config):
                self.replay_buffer_config = with_choices(replay_buffer_config, self._replay_settings)
            else:
                self.replay_buffer_config = self._replay_settings(replay_buffer_config)
        return self

    def _replay_settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what `replay` stores for ``{"type": name, **arguments}``."""
        if not isinstance(given, Mapping):
            raise ValueError(f'replay_buffer_config is {given!r}; expected a mapping such as {{"type": "NMER"}}')
        arguments = dict(given)
        kind = arguments.pop("type", self.replay_buffer_config.get("type"))
        if kind is None:
            raise ValueError(f'replay_buffer_config is {given!r}; expected a "type", such as "NMER"')
        before = self.replay_buffer_config
        made = self.replay(kind, **arguments).replay_buffer_config
        self.replay_buffer_config = before
        return made

    @override(AlgorithmConfig)
    def update_from_dict(self, config_dict: Mapping[str, Any]) -> Self:
        """Set options from a dictionary, as Tune does for each trial; names as for `training`.

        Raises:
            TypeError: For settings that do not exist or are rejected, all in one message.
        """
        settings = {RLLIB_NAMES.get(name, name): value for name, value in config_dict.items()}
        replay = settings.pop("replay_buffer_config", None)
        known = [*vars(self), *settings_as_properties(type(self)), *KEYS_OF_DICTIONARIES]
        known += [name for name in settings if hasattr(self, self._translate_special_keys(name, False))]
        settings, unknown, rejected = understood(self, settings, known, {})
        if unknown or rejected:
            title = type(self).__name__.removesuffix("Config")
            raise TypeError(explained(title, unknown, rejected, known, list_known=False))
        settings.pop("model", None)  # at its default, see `rllib_names`
        super().update_from_dict(settings)
        return self if replay is None else self.training(replay_buffer_config=replay)

    @override(AlgorithmConfig)
    def evaluation(self, *, evaluation_max_episode_steps: int | None | Any = NotProvided, **settings: Any) -> Self:
        """Set how to evaluate: after how many steps episodes are cut, and RLlib's options."""
        super().evaluation(**settings)
        if evaluation_max_episode_steps is not NotProvided:
            self.evaluation_max_episode_steps = evaluation_max_episode_steps
        return self

    @override(AlgorithmConfig)
    def validate(self) -> None:
        if self.in_evaluation and self.evaluation_duration_unit == "episodes" and self.evaluation_duration != "auto":
            self.metrics_num_episodes_for_smoothing = int(self.evaluation_duration)
        adopt_iteration_lengths(self)
        # RLlib would advise to go back to a stack that this algorithm does not have.
        log_once(f"{self.algo_class.__name__}_on_new_api_stack")
        if not self.in_evaluation:  # RLlib makes that configuration of this one, with settings of its own
            check_rllib_settings(self)
        check_host(self)
        if wants_normalization(self):
            self.normalize_observations, self._env_to_module_connector = True, None
        if self.action_space is not None:
            check_action_space(self.action_space, self.module_class.architecture.acts_in)
        adopt_model_settings(self)
        if has_search_space(self.replay_buffer_config):
            raise ValueError(
                f"replay_buffer_config is {self.replay_buffer_config}, which has an open search space; "
                "expected tune.Tuner(config.algo_class, param_space=config) to choose from it"
            )
        super().validate()
        self._check_exploration()
        for name, field in self.own_settings().items():
            self._check_setting(name, accepted_by(field))
        self._check_batch_sizes()
        self._check_setting("evaluation_max_episode_steps", OrWord(Whole(1), "none", None))
        if self.lr is not None and not Rate().admits(self.lr):
            raise ValueError(f"lr is {self.lr!r}; expected {Rate().described}")
        if self.num_learners > 0:
            raise ValueError(f"num_learners is {self.num_learners}; expected 0, the learner runs beside the buffer")

    def _check_batch_sizes(self) -> None:
        """Reject batch sizes that are not positive, or two that were set and differ."""
        field = self.own_settings()["train_batch_size"]
        self._check_setting("train_batch_size_per_learner", accepted_by(field))
        size = self.train_batch_size
        per_learner = self.train_batch_size_per_learner
        if size not in (field.default, per_learner):
            raise ValueError(
                f"train_batch_size is {size} and train_batch_size_per_learner {per_learner}; expected one of them, "
                "both are the batch of the one learner"
            )

    def _check_exploration(self) -> None:
        given = self.exploration
        self.exploration = make_exploration({"type": given} if isinstance(given, str) else given)
        if self.exploration.annealed and not (self.exploration.steps or self.anneal_steps):
            name = type(self.exploration).__name__
            raise ValueError(f"anneal_steps is {self.anneal_steps}; expected the env steps over which {name} changes")

    def progress(self, env_steps: int) -> float | None:
        """Return how far exploration's schedule is after so many env steps, None where there is none."""
        steps = self.exploration.steps or self.anneal_steps
        return env_steps / steps if steps else None

    def _check_setting(self, name: str, accepts: Any) -> None:
        value = getattr(self, name)
        if not accepts.admits(value):
            ours = {rllib: own for own, rllib in RLLIB_NAMES.items()}
            raise ValueError(f"{ours.get(name, name)} is {value!r}; expected {accepts.described}")

    def make_update(self, module: RLModule) -> Any:
        """Return the update of this algorithm for a module: of the class `update` if there is one."""
        raise NotImplementedError

    def update_settings(self) -> dict[str, Any]:
        """Return what updates are given: the algorithm's settings, or a refusal, and RLlib's clipping."""
        names = {f.name: RLLIB_NAMES.get(f.name, f.name) for f in fields(self.settings_class)}
        own = {name: getattr(self, attribute) for name, attribute in names.items()}
        own |= {f"{name}_lr": rate for name, rate in self.rates(0).items()}
        return {"settings": self.settings_class(**own)} | {n: getattr(self, n) for n in ("grad_clip", "grad_clip_by")}

    @property
    def layers(self) -> str:
        """The networks' layers, which those of a checkpoint must equal."""
        return str(list(self.hiddens))

    @override(AlgorithmConfig)
    def get_default_rl_module_spec(self) -> RLModuleSpec:
        return RLModuleSpec(module_class=self.module_class)

    @override(AlgorithmConfig)
    def get_state(self) -> dict[str, Any]:
        # RLlib's leaves out whatever equals -1, its mark of retired settings; a target entropy may be just that.
        ours = vars(self).keys() - vars(AlgorithmConfig()).keys()
        return {name: getattr(self, name) for name in ours} | super().get_state()

    @property
    @override(AlgorithmConfig)
    def _model_config_auto_includes(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in self.module_class.architecture.settings}
        return (
            super()._model_config_auto_includes
            | own
            | {
                "hiddens": list(self.hiddens),
                "matrix_dtype": self.matrix_dtype,
                "activation": self.activation,
                "normalize_observations": self.normalize_observations,
                "exploration": self.exploration,
            }
        )
