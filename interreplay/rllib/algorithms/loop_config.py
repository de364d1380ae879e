"""The configuration that all our algorithms share."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import Field, fields
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.models.catalog import MODEL_DEFAULTS
from ray.rllib.utils.annotations import override
from ray.tune.result import STDERR_FILE, STDOUT_FILE, TRIAL_INFO
from ray.util.debug import log_once
from typing_extensions import Self

from interreplay.environments.actions import check_action_space
from interreplay.errors import accepted_names
from interreplay.learning.algorithms_table import ALGORITHMS, get_architecture
from interreplay.learning.architectures import ARCHITECTURES, COMMON, Architecture
from interreplay.learning.exploration import Exploration, Sampled, make_exploration
from interreplay.learning.listed.networks import STREAMS
from interreplay.learning.setting_fields import SEED, OrWord, Rate, WholeNumber, defaults, get_accepted_values, rate_at
from interreplay.learning.settings import LoopSettings
from interreplay.rllib.algorithms.module import OffPolicyModule
from interreplay.rllib.algorithms.rllib_settings import (
    MODEL_KEYS,
    adopt_model_settings,
    check_host,
    check_not_ignored,
    explain_rejected,
    replay_method,
    settings_as_properties,
    translate_settings,
)
from interreplay.rllib.env_runner.runner import BatchEnvRunner
from interreplay.rllib.host import has_search_space, is_search_space
from interreplay.storage.state_copies import attributes

KEYS_OF_DICTIONARIES = ("multiagent", "simple_optimizer", "_enable_new_api_stack", TRIAL_INFO, STDOUT_FILE, STDERR_FILE)
"""Keys that RLlib and Tune add to configurations as dictionaries, and that are not attributes."""
RETIRED = -1
"""RLlib's mark of retired settings."""
RLLIB_NAMES = {"learning_starts": "num_steps_sampled_before_learning_starts"}
"""Settings with RLlib's name as attribute."""


class ModelSettings(dict[str, Any]):
    """RLlib's ``config.model``: settings of its old models, which have no effect here. Calling it sets our networks."""

    def __init__(self, config: LoopConfig):
        super().__init__(MODEL_DEFAULTS)
        self._config = config

    def __call__(self, **settings: Any) -> Any:
        """Set the networks, as in ``config.model(actor=[...], critic=[...])`` or ``config.model(hiddens=(64, 64))``.

        Args:
            **settings: Layers by stream, or settings of networks by name, such as `hiddens` and `encoder`. Streams of
                several calls are joined.

        Returns:
            The configuration.

        Raises:
            TypeError: The algorithm has no such stream or setting.
        """
        architecture = self._config.architecture
        streams = STREAMS[architecture.family]
        own = {*COMMON, *architecture.settings} & self._config.own_settings().keys()
        accepted = [*streams, *sorted(own)]
        network = dict(settings.pop("network", None) or self._config.network or {})
        for name in list(settings):
            if name not in accepted:
                title = type(self._config).__name__
                raise TypeError(f"{title}.model has no argument {name!r}; {accepted_names(name, accepted)}")
            if name in streams:
                network[name] = settings.pop(name)
        return self._config.training(network=network or None, **settings)


class LoopConfig(AlgorithmConfig):
    """Settings shared by all our algorithms, with RLlib's names where RLlib has one.

    Each is a field of `loop_class` or of the algorithm's own dataclass: an attribute here, an argument of `training`.

    Attributes:
        loop_class: Dataclass of the loop's settings.
        settings_class: Dataclass of the algorithm's own settings.
        trainer: Name in the table of algorithms, which contains the default replay method and defines the networks.
        module_class: RLModule of the algorithm.
        learner_class: Learner of the algorithm.
        runner_class: Runner of the environments.
        update_class: The update of the algorithm, or a subclass.
        algorithm_class: The Algorithm that names this configuration, as the only element of a tuple: Ray follows
            classes that are attributes of classes, and would do so endlessly.
        exploration: How the policy acts while it trains: an `interreplay.learning.exploration`, its name, or a mapping
            such as ``{"type": "Gaussian", "sigma": 0.1}``. Each runner has its own copy. Schedules such as the one of
            `EpsilonGreedy` run over `anneal_steps`.
        lr: Learning rate of every optimizer without a separate rate; None for the defaults.
        train_batch_size: Rows or unrolls per update, also called ``train_batch_size_per_learner``.
        evaluation_max_episode_steps: Steps after which an episode of an evaluation is cut; None for 10,000 if the
            environment has no time limit.
    """

    loop_class: ClassVar[type] = LoopSettings
    settings_class: ClassVar[type]
    trainer: ClassVar[str]
    module_class: ClassVar[type[OffPolicyModule]] = OffPolicyModule
    learner_class: ClassVar[type]
    runner_class: ClassVar[type[BatchEnvRunner]] = BatchEnvRunner
    update_class: ClassVar[Any]
    algorithm_class: ClassVar[tuple[type, ...]] = ()

    env: Any
    env_config: dict[str, Any]
    # Fields of `LoopSettings`, set in the constructor.
    hiddens: Any
    network: Any
    encoder: Any
    activation: str
    anneal_steps: int | None
    cuda_graph: bool
    matrix_dtype: str
    normalize_observations: bool
    steps_per_iteration: int

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class or next(iter(self.algorithm_class), None))
        self.env_runner_cls: Any = self.runner_class
        self.rollout_fragment_length: Any = 1
        self.lr: Any = None
        self.given_rates: list[str] = []  # separate learning rates, which `lr` does not replace
        self.exploration: Any = Sampled()
        for name, default in (defaults(self.loop_class) | defaults(self.settings_class)).items():
            setattr(self, RLLIB_NAMES.get(name, name), default)
        self.evaluation_max_episode_steps: int | None = None
        self.sample_timeout_s = 300.0
        self.evaluation_sample_timeout_s = 1800.0  # of all episodes of a runner
        self.restart_failed_env_runners = False
        row = ALGORITHMS[self.trainer]
        # What is replayed; see `replay`.
        self.replay_buffer_config: dict[str, Any] = {"type": row.buffer, **row.buffer_args}
        self.evaluation_duration = 10
        self.evaluation_config: Any = {"explore": False, "num_envs_per_env_runner": 1}
        self.metrics_num_episodes_for_smoothing = 10
        self.min_time_s_per_iteration: Any = 0
        self.min_train_timesteps_per_iteration = 0
        self.min_sample_timesteps_per_iteration = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """List the settings in the docstring of `training`, once for each signature."""
        super().__init_subclass__(**kwargs)
        training: Any = cls.training
        if "settings_class" in vars(cls) and training.__doc__ is None:
            training.__doc__ = "Set training options, also by RLlib's names.\n\nArgs:\n"
            for name, field in cls.own_settings().items():
                accepted = f"default: {field.default}; {get_accepted_values(field).in_python}"
                training.__doc__ += f"    {name}: {field.metadata['help']} ({accepted}).\n"

    def replay(self, kind: Any, **arguments: Any) -> Self:
        """Choose what is replayed.

        Args:
            kind: Name in the catalog such as ``"NMER"``, a class, any factory of a `ReplayBuffer`, or a `Mix`; RLlib's
                names of episode buffers mean ``"Uniform"`` and ``"PER"``. Algorithms that learn from unrolls accept
                ``"Fresh"`` for nothing, ``"UnrollMix"`` for a mix, or directly the sources of a mix. Also a search
                space of Tune.
            **arguments: Arguments of the method, also as search spaces. ``seed``, ``n_step``, ``gamma`` and ``device``
                default to the values of this configuration. For a mix of unrolls, ``parameters``: its sources, by the
                settings of `interreplay.unrolls.mix_settings` or by the original platform's schema, also as JSON; by
                default half fresh and half replayed.

        Raises:
            ValueError: The name or an argument is unknown; the message suggests the nearest valid one.
        """
        if is_search_space(kind):
            self.replay_buffer_config = {"type": kind, **arguments}
        else:
            self.replay_buffer_config = self._replayed(kind, arguments)
        return self

    def _replayed(self, kind: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the settings ``{"type": name, **arguments}`` of what is replayed."""
        raise NotImplementedError

    @property
    def model(self) -> ModelSettings:
        """A callable that sets the networks, see `ModelSettings`."""
        return ModelSettings(self)

    @classmethod
    def own_settings(cls) -> dict[str, Field[Any]]:
        """Return the fields of the loop's and the algorithm's settings by the names of their attributes."""
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
        """Set training options: the settings of the class, and RLlib's.

        ``replay_buffer_config={"type": name, **arguments}`` is equivalent to `replay`, but as in RLlib, it keeps the
        earlier arguments if the type is the same or omitted. `exploration` is described in the class. Settings may have
        RLlib's names, see `interreplay.rllib.algorithms.rllib_settings`.

        Raises:
            TypeError: Settings do not exist or are rejected; one message names all of them.
        """
        own = self.own_settings()
        of_rllib = inspect.signature(AlgorithmConfig.training).parameters
        known = [*own, "exploration", "replay_buffer_config", *of_rllib]
        given = settings
        settings, unknown, rejected = translate_settings(self, name_by_attributes(given), known)
        for name, other in RLLIB_NAMES.items():
            if name in given and given.get(other, given[name]) != given[name]:
                rejected.append(f"{name}={given[name]!r} with {other}={given[other]!r} (set one)")
        size = settings.get("train_batch_size", NotProvided)
        per_learner = settings.get("train_batch_size_per_learner", size)
        if NotProvided is not size != per_learner:
            rejected.append(f"train_batch_size={size!r} with train_batch_size_per_learner={per_learner!r} (set one)")
        if unknown or rejected:
            raise TypeError(explain_rejected(f"{type(self).__name__}.training", unknown, rejected, known))
        self._replace_earlier(settings)
        for name in settings.keys() & own.keys():
            setattr(self, name, settings.pop(name))
        super().training(**settings)
        if exploration is not NotProvided:
            self.exploration = exploration
        if is_search_space(replay_buffer_config):
            self.replay_buffer_config = replay_buffer_config
        elif replay_buffer_config is not NotProvided:
            self._set_replay(replay_buffer_config)
        return self

    def _replace_earlier(self, settings: Mapping[str, Any]) -> None:
        """Drop the earlier values of settings with two names, so that the later one takes effect."""
        if settings.get("train_batch_size_per_learner") is not None:
            default: Any = self.own_settings()["train_batch_size"].default
            self.train_batch_size = default
        elif "train_batch_size" in settings:
            self._train_batch_size_per_learner = None
        if "steps_per_iteration" in settings:
            self.min_sample_timesteps_per_iteration = 0
        if not settings.keys().isdisjoint(MODEL_KEYS) and not has_search_space(self._model_config):
            adopt_model_settings(self)
        for name in self.rate_names():
            if name in settings and name not in self.given_rates:
                self.given_rates = [*self.given_rates, name]

    def _set_replay(self, given: Mapping[str, Any]) -> None:
        """Call `replay` with ``{"type": name, **arguments}`` and, unless the type is another one, earlier arguments."""
        if not isinstance(given, Mapping):
            raise ValueError(f'replay_buffer_config is {given!r}; expected a mapping such as {{"type": "NMER"}}')
        arguments = dict(given)
        earlier: Any = self.replay_buffer_config
        if not is_search_space(earlier):
            before = earlier.get("type")
            if replay_method(given.get("type", before)) == before:
                arguments = {**earlier, **given}
        kind = arguments.pop("type", None)
        if kind is None:
            raise ValueError(f'replay_buffer_config is {given!r}; expected a "type", such as "NMER"')
        self.replay(kind, **arguments)

    @override(AlgorithmConfig)
    def update_from_dict(self, config_dict: Mapping[str, Any]) -> Self:
        """Set options from a dictionary, as Tune does for each trial; names as for `training`.

        Raises:
            TypeError: Settings do not exist or are rejected; one message names all of them.
        """
        settings = name_by_attributes(config_dict)
        replay = settings.pop("replay_buffer_config", None)
        known = [*vars(self), *settings_as_properties(type(self)), *KEYS_OF_DICTIONARIES]
        for name in settings:
            if hasattr(self, self._translate_special_keys(name, False)):
                known.append(name)
        settings, unknown, rejected = translate_settings(self, settings, known)
        if unknown or rejected:
            raise TypeError(explain_rejected(type(self).__name__.removesuffix("Config"), unknown, rejected, known))
        self._replace_earlier(settings)
        super().update_from_dict(settings)
        if replay is None:
            return self
        if "given_rates" in settings:  # a whole configuration, with all arguments
            self.replay_buffer_config = {}
        return self.training(replay_buffer_config=replay)

    @override(AlgorithmConfig)
    def evaluation(self, *, evaluation_max_episode_steps: int | None | Any = NotProvided, **settings: Any) -> Self:
        """Set evaluation options: the maximum length of episodes, and RLlib's options."""
        super().evaluation(**settings)
        if evaluation_max_episode_steps is not NotProvided:
            self.evaluation_max_episode_steps = evaluation_max_episode_steps
        return self

    @override(AlgorithmConfig)
    def validate(self) -> None:
        if self.in_evaluation and self.evaluation_duration_unit == "episodes" and self.evaluation_duration != "auto":
            self.metrics_num_episodes_for_smoothing = int(self.evaluation_duration)
        if self.min_sample_timesteps_per_iteration:  # `training_step` ends at a request to stop
            self.steps_per_iteration = int(self.min_sample_timesteps_per_iteration)
            self.min_sample_timesteps_per_iteration = 0
        # RLlib would advise to use its old API stack, which this algorithm does not support.
        log_once(f"{getattr(self.algo_class, '__name__', None)}_on_new_api_stack")
        if not self.in_evaluation:  # RLlib derives that configuration from this one, and changes settings of its own
            check_not_ignored(self)
            if self.evaluation_duration == "auto":
                raise ValueError("evaluation_duration is 'auto'; expected a number, the same in every evaluation")
        check_host(self)
        if self.action_space is not None:
            check_action_space(self.action_space, self.architecture.acts_in)
        adopt_model_settings(self)
        if has_search_space(self.replay_buffer_config):
            raise ValueError(
                f"replay_buffer_config is {self.replay_buffer_config}, which has an open search space; "
                "expected tune.Tuner(config.algo_class, param_space=config) to choose from it"
            )
        if self.lr is not None and not Rate().admits(self.lr):
            raise ValueError(f"lr is {self.lr!r}; expected {Rate().described}")
        if isinstance(self.lr, Real):
            self.lr = float(self.lr)  # RLlib rejects the other types of numbers
        self._check_setting("num_env_runners", WholeNumber(0))
        self._check_setting("num_envs_per_env_runner", WholeNumber(1))
        super().validate()
        if self.exploration is None:
            self.exploration = Sampled()
        self.exploration = make_exploration(self.exploration)
        if self.exploration.annealed and not (self.exploration.steps or self.anneal_steps):
            name = type(self.exploration).__name__
            raise ValueError(f"anneal_steps is {self.anneal_steps}; expected the env steps over which {name} changes")
        for name, field in self.own_settings().items():
            if name != "exploration":  # `make_exploration` has checked it
                self._check_setting(name, get_accepted_values(field))
        size = self.own_settings()["train_batch_size"]
        self._check_setting("train_batch_size_per_learner", get_accepted_values(size))
        if self.train_batch_size not in (size.default, self.train_batch_size_per_learner):
            raise ValueError(
                f"train_batch_size is {self.train_batch_size} and train_batch_size_per_learner "
                f"{self.train_batch_size_per_learner}; expected one of them, both are the batch of the one learner"
            )
        self._check_setting("evaluation_interval", OrWord(WholeNumber(0), "none", None))
        self._check_setting("evaluation_max_episode_steps", OrWord(WholeNumber(1), "none", None))
        if self.seed is not None:
            self._check_setting("seed", SEED)
            self.seed = int(self.seed)  # PyTorch rejects NumPy's integers

    def _check_setting(self, name: str, accepts: Any) -> None:
        value = getattr(self, name)
        if not accepts.admits(value):
            for own, rllib in RLLIB_NAMES.items():
                name = name.replace(rllib, own)
            raise ValueError(f"{name} is {value!r}; expected {accepts.in_python}")

    def progress(self, env_steps: int) -> float | None:
        """Return the progress of exploration's schedule, from 0 to 1, after a number of env steps, or None."""
        steps = self.exploration.steps or self.anneal_steps
        if not steps:
            return None
        return min(1.0, env_steps / steps)

    def rate(self, name: str) -> Any:
        """Return a learning rate, or its schedule: `lr` if it is set and `name` was not given."""
        own = getattr(self, name)
        if self.lr is None or name in self.given_rates or own != self.own_settings()[name].default:
            return own
        return self.lr

    def rates(self, env_steps: int) -> dict[str, float]:
        """Return each optimizer's learning rate after a number of env steps."""
        found = {}
        for name in self.rate_names():
            found[name.removesuffix("_lr")] = rate_at(self.rate(name), env_steps)
        return found

    @property
    def has_schedules(self) -> bool:
        """Whether a learning rate changes during training."""
        return any(isinstance(rate, list | tuple) for rate in (self.lr, *map(self.rate, self.rate_names())))

    def rate_names(self) -> list[str]:
        """Return the names of the settings of learning rates."""
        return [name for name in self.own_settings() if name.endswith("_lr")]

    def make_update(self, module: Any) -> Any:
        """Return the update of this algorithm, an `update_class`, for a module."""
        raise NotImplementedError

    def update_settings(self) -> Any:
        """Return the settings of the update, after checking them."""
        own = {}
        for field in fields(self.settings_class):
            own[field.name] = getattr(self, RLLIB_NAMES.get(field.name, field.name))
        for name in self.rate_names():
            own[name] = rate_at(self.rate(name), 0)
        return self.settings_class(**own)

    @property
    def architecture(self) -> Architecture:
        """The networks of the algorithm."""
        return ARCHITECTURES[get_architecture(self.trainer)]

    @property
    def network_settings(self) -> dict[str, Any]:
        """The settings that determine the networks, by name, with Python's numbers, as JSON requires."""
        names = (*COMMON, *self.architecture.settings)
        return to_python_numbers(attributes(self, names) | {"hiddens": list(self.hiddens)})

    @override(AlgorithmConfig)
    def get_default_learner_class(self) -> type:
        return self.learner_class

    @override(AlgorithmConfig)
    def get_default_rl_module_spec(self) -> RLModuleSpec:
        return RLModuleSpec(module_class=self.module_class)

    @override(AlgorithmConfig)
    def get_state(self) -> dict[str, Any]:
        # RLlib omits every value that equals -1, its mark of retired settings, so that their defaults would apply. A
        # target entropy may be -1; most settings reject it.
        state = super().get_state()
        rllib_defaults = vars(AlgorithmConfig())
        for name in vars(self).keys() - state.keys() - {"algo_class", "_is_frozen"}:
            if rllib_defaults.get(name) != RETIRED:
                state[name] = getattr(self, name)
        return state

    @property
    @override(AlgorithmConfig)
    def _model_config_auto_includes(self) -> dict[str, Any]:
        own = {"architecture": get_architecture(self.trainer), "exploration": self.exploration}
        return super()._model_config_auto_includes | self.network_settings | own


def to_python_numbers(value: Any) -> Any:
    """Return nested containers with Python's numbers in place of numpy's.

    Unlike `interreplay.runs.resume.as_plain`, it keeps tuples, which checkpoints compare as text.
    """
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {name: to_python_numbers(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(to_python_numbers, value))
    return value


def name_by_attributes(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by the names of their attributes."""
    return {RLLIB_NAMES.get(name, name): value for name, value in settings.items()}


def passed(names: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that were passed to a generated `training`, given its local names."""
    arguments = dict(names["settings"])
    for name, value in names.items():
        if name not in ("self", "settings", "__class__") and value is not NotProvided:
            arguments[name] = value
    return arguments
