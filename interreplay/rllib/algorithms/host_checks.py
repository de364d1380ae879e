"""What our algorithms ask of RLlib's settings around them, checked before anything is built."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.connectors.env_to_module import MeanStdFilter
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from interreplay.errors import accepted_names
from interreplay.learning.architectures import CRITICS
from interreplay.learning.setting_fields import Number, OneOf
from interreplay.rllib.algorithms.module import OffPolicyModule
from interreplay.rllib.env_runner.env_creation import ONE_AGENT, check_agents
from interreplay.rllib.env_runner.runner import BatchEnvRunner

MODEL_KEYS = ("hiddens", "activation", "matrix_dtype", "initial_alpha", "normalize_observations", *CRITICS)
"""What networks take from ``rl_module(model_config=)``, beside RLlib's names for layers and activation."""


def check_host(config: AlgorithmConfig) -> None:
    """Refuse RLlib settings that our algorithms cannot work with.

    Raises:
        ValueError: Naming the setting and what would be accepted.
    """
    if not (config.enable_rl_module_and_learner and config.enable_env_runner_and_connector_v2):
        raise ValueError("api_stack: the old API stack is not supported; leave both new ones enabled")
    if config.is_multi_agent or config.policies_to_train is not None:
        raise ValueError(f"multi_agent: {ONE_AGENT}")
    if isinstance(config.env, type):
        check_agents(config.env)
    if not issubclass(config.env_runner_cls, BatchEnvRunner):
        raise ValueError(f"env_runner_cls is {config.env_runner_cls.__name__}; expected BatchEnvRunner or a subclass")
    if not config.create_local_env_runner:
        raise ValueError("create_local_env_runner is False; expected True, the environment's spaces are read from it")
    _check_module(config)
    for name, accepts in (("gamma", Number(0, 1)), ("grad_clip_by", OneOf("value", "norm", "global_norm"))):
        if not accepts.admits(getattr(config, name)):
            raise ValueError(f"{name} is {getattr(config, name)!r}; expected {accepts.described}")
    if config.grad_clip is not None and not Number(0, open_low=True).admits(config.grad_clip):
        raise ValueError(f"grad_clip is {config.grad_clip!r}; expected a number above 0, or None")


def adopt_iteration_lengths(config: Any) -> None:
    """Let `training_step` see to RLlib's least lengths of iterations, so that a request to stop ends them.

    Args:
        config: A `LoopConfig`, which is changed.

    Raises:
        ValueError: For an iteration that could not end.
    """
    if config.min_sample_timesteps_per_iteration:
        config.steps_per_iteration = int(config.min_sample_timesteps_per_iteration)
        config.min_sample_timesteps_per_iteration = 0
    if config.min_train_timesteps_per_iteration:
        config.trained_rows_per_iteration = int(config.min_train_timesteps_per_iteration)
        config.min_train_timesteps_per_iteration = 0
    if config.trained_rows_per_iteration and not getattr(config, "updates_per_step", 1):
        raise ValueError(
            f"min_train_timesteps_per_iteration is {config.trained_rows_per_iteration}; expected 0 where "
            "updates_per_step is 0, nothing is learned then"
        )


def adopt_model_settings(config: Any) -> None:
    """Let what ``rl_module(model_config=)`` says be settings of the configuration.

    Args:
        config: A `LoopConfig`, which is changed.

    Raises:
        ValueError: For what its networks do not have.
    """
    own = config.own_settings()
    for name, value in model_settings(config._model_config).items():
        if name not in own:
            title = type(config).__name__.removesuffix("Config")
            raise ValueError(f"model_config: {title} has no {name!r}; {accepted_names(name, own)}")
        setattr(config, name, value)
    config._model_config = {}


def _check_module(config: AlgorithmConfig) -> None:
    spec = config._rl_module_spec
    module = getattr(spec, "module_class", None)
    if module is not None and not (isinstance(module, type) and issubclass(module, OffPolicyModule)):
        expected = getattr(config, "module_class", OffPolicyModule).__name__
        raise ValueError(f"the RLModule is {getattr(module, '__name__', module)}; expected {expected} or a subclass")


def model_settings(given: Any) -> dict[str, Any]:
    """Return what ``rl_module(model_config=)`` says, by our names.

    Args:
        given: A mapping or RLlib's `DefaultModelConfig`, of which what differs from its defaults counts.

    Raises:
        ValueError: For a key or an activation that networks do not have.
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


def wants_normalization(config: AlgorithmConfig) -> bool:
    """Return whether RLlib's settings ask for observations normalized by running statistics.

    Raises:
        ValueError: For another filter, or connectors of another kind.
    """
    if config.observation_filter not in ("NoFilter", "MeanStdFilter", "ConcurrentMeanStdFilter"):
        raise ValueError(f"observation_filter is {config.observation_filter!r}; expected NoFilter or MeanStdFilter")
    wanted = config.observation_filter != "NoFilter"
    if config._env_to_module_connector is None:
        return wanted
    made = config._env_to_module_connector(None, None, None)
    pieces = list(made) if isinstance(made, list | tuple) else [made]
    if not pieces or not all(isinstance(piece, MeanStdFilter) for piece in pieces):
        kinds = ", ".join(type(piece).__name__ for piece in pieces) or "nothing"
        raise ValueError(f"env_to_module_connector gives {kinds}; expected MeanStdFilter; use an environment wrapper")
    return True
