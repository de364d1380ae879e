"""RLlib's settings: which ones our algorithms read, and checks of those that they would ignore or cannot work with.

RLlib's configuration has some 200 settings, and its own algorithms ignore many of them silently. `rllib_settings.yaml`
lists every one.
"""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from importlib.resources import files
from typing import Any

import yaml
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.connectors.env_to_module import MeanStdFilter
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from interreplay.errors import accepted_names
from interreplay.learning.architectures import CRITICS
from interreplay.learning.setting_fields import Number
from interreplay.rllib.algorithms.module import OffPolicyModule
from interreplay.rllib.env_runner.env_creation import ONE_AGENT, check_agents
from interreplay.rllib.env_runner.runner import BatchEnvRunner

TABLE: dict[str, Any] = yaml.safe_load((files("interreplay.rllib.algorithms") / "rllib_settings.yaml").read_text())
MODEL_KEYS = ("hiddens", "activation", "matrix_dtype", "initial_alpha", "normalize_observations", *CRITICS)
"""Keys that networks read from ``rl_module(model_config=)``, in addition to RLlib's names for layers and activation."""


def rllib_training_names() -> list[str]:
    """Return the arguments of RLlib's own `training`."""
    return [name for name in inspect.signature(AlgorithmConfig.training).parameters if name != "self"]


def settings_as_properties(cls: type) -> list[str]:
    """Return the names of a configuration's settings that are properties."""
    return [name for name, value in inspect.getmembers(cls) if isinstance(value, property)]


def check_not_ignored(config: AlgorithmConfig) -> None:
    """Reject changed settings of RLlib that our algorithms would ignore.

    Raises:
        ValueError: Names each setting, its value, and what to use instead.
    """
    plain = AlgorithmConfig()
    own: dict[str, Any] = getattr(config, "own_settings", dict)()
    title = type(config).__name__.removesuffix("Config")
    ignored = []
    for name, instead in TABLE["refused"].items():
        # Some versions of Ray lack a few of these settings.
        value = getattr(config, name, None)
        if name not in own and value != getattr(plain, name, None):
            ignored.append(f"{name.lstrip('_')} is {value!r}; {title} does not read it: {instead}")
    if ignored:
        raise ValueError("; ".join(ignored))


def check_host(config: AlgorithmConfig) -> None:
    """Reject settings of RLlib that our algorithms cannot work with.

    Raises:
        ValueError: Names the setting and what is accepted.
    """
    if not (config.enable_rl_module_and_learner and config.enable_env_runner_and_connector_v2):
        raise ValueError("api_stack: the old API stack is not supported; leave both new ones enabled")
    if config.is_multi_agent or config.policies_to_train is not None:
        raise ValueError(f"multi_agent: {ONE_AGENT}")
    if isinstance(config.env, type):
        check_agents(config.env)
    runner: Any = config.env_runner_cls
    if not issubclass(runner, BatchEnvRunner):
        raise ValueError(f"env_runner_cls is {runner.__name__}; expected BatchEnvRunner or a subclass")
    if not config.create_local_env_runner:
        raise ValueError("create_local_env_runner is False; expected True, the environment's spaces are read from it")
    module = getattr(config._rl_module_spec, "module_class", None)
    if module is not None and not (isinstance(module, type) and issubclass(module, OffPolicyModule)):
        expected = getattr(config, "module_class", OffPolicyModule).__name__
        raise ValueError(f"the RLModule is {getattr(module, '__name__', module)}; expected {expected} or a subclass")
    if not Number(0, 1).admits(config.gamma):
        raise ValueError(f"gamma is {config.gamma!r}; expected {Number(0, 1).described}")


def adopt_iteration_lengths(config: Any) -> None:
    """Convert RLlib's minimum lengths of iterations into ours, so that `training_step` ends at a request to stop.

    Args:
        config: A `LoopConfig`, which is changed.

    Raises:
        ValueError: An iteration could not end.
    """
    if config.min_sample_timesteps_per_iteration:
        config.steps_per_iteration = int(config.min_sample_timesteps_per_iteration)
        config.min_sample_timesteps_per_iteration = 0
    if config.min_train_timesteps_per_iteration:
        config.trained_rows_per_iteration = int(config.min_train_timesteps_per_iteration)
        config.min_train_timesteps_per_iteration = 0
    if config.trained_rows_per_iteration and not getattr(config, "updates_per_step", 1):
        raise ValueError(
            f"min_train_timesteps_per_iteration is {config.trained_rows_per_iteration}; expected 0 if "
            "updates_per_step is 0, because nothing is learned then"
        )


def adopt_model_settings(config: Any) -> None:
    """Convert ``rl_module(model_config=)`` into settings of the configuration.

    Args:
        config: A `LoopConfig`, which is changed.

    Raises:
        ValueError: The networks do not have such a setting.
    """
    own = config.own_settings()
    for name, value in model_settings(config._model_config).items():
        if name not in own:
            title = type(config).__name__.removesuffix("Config")
            raise ValueError(f"model_config: {title} has no {name!r}; {accepted_names(name, own)}")
        setattr(config, name, value)
    config._model_config = {}


def model_settings(given: Any) -> dict[str, Any]:
    """Return the settings in ``rl_module(model_config=)`` by our names.

    Args:
        given: A mapping or RLlib's `DefaultModelConfig`, from which only values that differ from the defaults are read.

    Raises:
        ValueError: The networks do not have such a key or activation.
    """
    if isinstance(given, DefaultModelConfig):
        plain = dataclasses.asdict(DefaultModelConfig())
        given = {name: value for name, value in dataclasses.asdict(given).items() if value != plain[name]}
    given = dict(given or {})
    initializers = [name for name in given if name.endswith(("_initializer", "_initializer_kwargs"))]
    if initializers:
        for name in initializers:
            del given[name]
        warnings.warn(
            f"model_config: {', '.join(initializers)} has no effect; weights start as in the algorithm's paper",
            stacklevel=2,
        )
    head = list(given.pop("head_fcnet_hiddens", ()))
    head_activation = given.pop("head_fcnet_activation", None)
    if "fcnet_activation" in given:
        given["activation"] = str(given.pop("fcnet_activation")).lower()
    if head and head_activation is not None and "activation" in given and head_activation != given["activation"]:
        raise ValueError(
            f"model_config: head_fcnet_activation is {head_activation!r}; expected fcnet_activation, "
            f"{given['activation']!r}, there is one activation"
        )
    if "fcnet_hiddens" in given or head:
        given["hiddens"] = [*given.pop("fcnet_hiddens", DefaultModelConfig().fcnet_hiddens), *head]
    for name in given:
        if name not in MODEL_KEYS:
            raise ValueError(f"model_config: unknown {name!r}; {accepted_names(name, ['fcnet_hiddens', *MODEL_KEYS])}")
    return given


def requests_normalization(config: AlgorithmConfig) -> bool:
    """Return whether RLlib's settings request observations normalized by running statistics.

    Raises:
        ValueError: They request another filter or other connectors.
    """
    if config.observation_filter not in ("NoFilter", "MeanStdFilter", "ConcurrentMeanStdFilter"):
        raise ValueError(f"observation_filter is {config.observation_filter!r}; expected NoFilter or MeanStdFilter")
    if config._env_to_module_connector is None:
        return config.observation_filter != "NoFilter"
    connector: Any = config._env_to_module_connector
    made = connector(None, None, None)
    pieces = list(made) if isinstance(made, list | tuple) else [made]
    if not pieces or not all(isinstance(piece, MeanStdFilter) for piece in pieces):
        kinds = ", ".join(type(piece).__name__ for piece in pieces) or "nothing"
        raise ValueError(f"env_to_module_connector returns {kinds}; expected MeanStdFilter; use an environment wrapper")
    return True
