"""RLlib's settings and names: which of them our algorithms read, translate, or reject.

RLlib's configuration has some 200 settings, and its own algorithms ignore many of them silently. `rllib_settings.yaml`
lists every one, and RLlib's names of settings that have another name here. `training`, configurations from
dictionaries, `rllib train --config` and docs/coming-from.md use the same table.
"""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable, Mapping
from importlib.resources import files
from numbers import Real
from typing import Any

import yaml
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.models.catalog import MODEL_DEFAULTS

from interreplay.errors import accepted_names, check_number, did_you_mean
from interreplay.learning.architectures import CRITICS
from interreplay.learning.setting_fields import Number
from interreplay.rllib.algorithms.module import OffPolicyModule
from interreplay.rllib.env_runner.env_creation import ONE_AGENT, check_agents
from interreplay.rllib.env_runner.runner import BatchEnvRunner
from interreplay.rllib.host import is_search_space

TABLE: dict[str, Any] = yaml.safe_load((files("interreplay.rllib.algorithms") / "rllib_settings.yaml").read_text())
NAMES: dict[str, str] = TABLE["names"]
"""Names in RLlib's `training` of SAC, TQC and DQN, and of its former TD3 and DDPG, and descriptions of our settings."""
MODEL_KEYS = ("hiddens", "activation", "matrix_dtype", "initial_alpha", "normalize_observations", *CRITICS)
"""Keys that networks read from ``rl_module(model_config=)``, in addition to RLlib's names for layers and activation."""
BUFFERS = {"EpisodeReplayBuffer": "Uniform", "PrioritizedEpisodeReplayBuffer": "PER"}
"""RLlib's replay buffers, and the replay methods with the same arguments."""
Lookup = Callable[..., Any]
"""Returns the new value of a setting, else its current value, else None; given several names, the first new value."""

# -- RLlib's names ----------------------------------------------------------------------------------

RENAMED = {
    "double_q": "double",
    "adam_epsilon": "optimizer_eps",
    "top_quantiles_to_drop_per_net": "drop_per_critic",
    "target_noise": "target_policy_noise",
}
ONLY_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "store_buffer_in_checkpoints": (True,),
    "burn_in_len": (0,),
    "before_learn_on_batch": (None,),
    "categorical_distribution_temperature": (1.0,),
    "_deterministic_loss": (False,),
    "_use_beta_distribution": (False,),
    "model": ({}, MODEL_DEFAULTS),
}
"""Names without effect, and the accepted values."""


def _updates_per_step(value: Any, get: Lookup) -> dict[str, Any]:
    if value is None:
        return {}
    check_number("training_intensity", value, 0)
    batch = get("train_batch_size_per_learner", "_train_batch_size_per_learner", "train_batch_size")
    return {"updates_per_step": value / batch}


def _distribution(value: Any, get: Lookup) -> dict[str, Any]:
    if value == 1:
        return {"distribution": "mean"}
    return {"distribution": "categorical", "atoms": value}


def _value_range(get: Lookup) -> Any:
    return get("value_range") or (None, None)  # algorithms without distributions have none


def _epsilon(value: Any, get: Lookup) -> dict[str, Any]:
    if isinstance(value, Real) and not isinstance(value, bool):
        return {"initial_epsilon": value, "final_epsilon": value}
    try:
        (begin, initial), (steps, final) = value
    except (TypeError, ValueError):
        begin = None
    if begin != 0:
        raise ValueError("expected a number, or two points such as [(0, 1.0), (10000, 0.02)]")
    return {"initial_epsilon": initial, "final_epsilon": final, "epsilon_steps": steps}


def _huber_delta(value: Any, get: Lookup) -> dict[str, Any]:
    deltas = {"huber": 1.0, "mse": None}
    if value not in deltas:
        raise ValueError("expected 'huber' or 'mse'")
    return {"huber_delta": deltas[value]}


def _target_update_period(value: Any, get: Lookup) -> dict[str, Any]:
    updates = (value or 0) * (get("updates_per_step") or 1)
    if get("target_update_period") is not None:
        return {"target_update_period": max(1, round(updates))}
    if updates > 1:
        raise ValueError("tau moves the targets at every update; leave it out, or use a smaller tau")
    return {}


TRANSLATED: dict[str, Callable[[Any, Lookup], dict[str, Any]]] = {
    "training_intensity": _updates_per_step,
    "target_network_update_freq": _target_update_period,
    "num_atoms": _distribution,
    "v_min": lambda value, get: {"value_range": (value, _value_range(get)[1])},
    "v_max": lambda value, get: {"value_range": (_value_range(get)[0], value)},
    "epsilon": _epsilon,
    "td_error_loss_fn": _huber_delta,
    "lr_schedule": lambda value, get: {} if value is None else {"lr": value},
    "twin_q": lambda value, get: {"n_critics": 1 + bool(value)},
}


def translate_settings(
    config: AlgorithmConfig, given: Mapping[str, Any], known: list[str]
) -> tuple[dict[str, Any], list[str], list[str]]:
    """Translate settings by RLlib's names or ours; `known` are the names of the settings of `config`.

    Returns:
        Settings by our names, unknown names, and a line for each rejected setting.
    """
    own: dict[str, Any] = config.own_settings()
    given = {name: value for name, value in given.items() if value is not NotProvided}
    settings = {name: value for name, value in given.items() if name in own or name not in NAMES}

    def get(*names: str) -> Any:
        for name in names:
            if settings.get(name) is not None:
                return settings[name]
        return getattr(config, names[0], None)

    rejected = []
    for name, text in NAMES.items():
        if name not in given or name in own:
            continue
        plain = text.replace("`", "")
        try:
            made = _translate(name, given[name], get)
            lacking = made.keys() - set(known)
            if lacking:
                raise ValueError(f"{plain}; {type(config).__name__.removesuffix('Config')} has no {min(lacking)}")
            for key in made.keys() & given.keys():
                if given[key] != made[key]:
                    raise ValueError(f"{key} is {given[key]!r}, too; set one of them")
            settings.update(made)
        except (TypeError, ValueError) as error:
            rejected.append(f"{name}={given[name]!r} ({str(error) or plain})")
    unknown = [name for name in settings if name not in known]
    return settings, unknown, rejected


def _translate(name: str, value: Any, get: Lookup) -> dict[str, Any]:
    """Return our settings for one of RLlib's names; raise a ValueError, with an empty message if it has none."""
    if name in RENAMED:
        return {RENAMED[name]: value}
    if name in ONLY_DEFAULTS:
        if value in ONLY_DEFAULTS[name]:
            return {}
        raise ValueError(f"expected {ONLY_DEFAULTS[name][0]!r}; {NAMES[name].replace('`', '')}")
    if name not in TRANSLATED:
        raise ValueError
    if is_search_space(value):
        raise ValueError(f"{NAMES[name].replace('`', '')}; give the search space to these settings")
    return TRANSLATED[name](value, get)


def explain_rejected(title: str, unknown: list[str], rejected: list[str], known: list[str]) -> str:
    """Return one message for all settings that a configuration does not accept."""
    parts = []
    if rejected:
        parts.append(f"{title} rejects {', '.join(rejected)}")
    for name in unknown:
        hint = did_you_mean(name, known) or "see the documentation of its configuration"
        parts.append(f"{title} has no setting {name!r}; {hint}")
    return "; ".join(parts)


def replay_method(kind: Any) -> Any:
    """Return the replay method for one of RLlib's replay buffers; other values are returned unchanged."""
    if isinstance(kind, type) and kind.__module__.startswith("ray.rllib."):
        return BUFFERS.get(kind.__name__, kind)
    if not isinstance(kind, str):
        return kind
    name = kind.rpartition(".")[2] if kind.startswith("ray.rllib.") else kind
    return BUFFERS.get(name, kind)


def settings_as_properties(cls: type) -> list[str]:
    """Return the names of a configuration's settings that are properties."""
    return list(dict(inspect.getmembers(cls, inspect.isdatadescriptor)))


# -- checks -----------------------------------------------------------------------------------------


def check_not_ignored(config: AlgorithmConfig) -> None:
    """Reject changed settings of RLlib that our algorithms would ignore."""
    plain = AlgorithmConfig()
    own: dict[str, Any] = config.own_settings()
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
    """Reject settings of RLlib that our algorithms cannot work with."""
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
    if config.num_learners > 0:
        raise ValueError(f"num_learners is {config.num_learners}; expected 0, the learner runs in the buffer's process")
    if config.restart_failed_env_runners:
        raise ValueError(
            "restart_failed_env_runners is True; expected False, a lost runner ends the run, which resumes from its "
            "checkpoint"
        )
    module = getattr(config._rl_module_spec, "module_class", None)
    if module is not None and not (isinstance(module, type) and issubclass(module, OffPolicyModule)):
        name = getattr(module, "__name__", module)
        raise ValueError(f"the RLModule is {name}; expected {OffPolicyModule.__name__} or a subclass")
    if not Number(0, 1).admits(config.gamma):
        raise ValueError(f"gamma is {config.gamma!r}; expected {Number(0, 1).described}")


# -- conversions of other settings ------------------------------------------------------------------


def adopt_model_settings(config: Any) -> None:
    """Convert ``rl_module(model_config=)`` into settings of the configuration.

    Args:
        config: A `LoopConfig`, which is changed. From RLlib's `DefaultModelConfig`, only values that differ from the
            defaults are read.

    Raises:
        ValueError: The networks do not have such a key or activation.
    """
    given = config._model_config
    spec = config._rl_module_spec
    if not given and spec is not None and getattr(spec, "module_class", None) is None:
        given = getattr(spec, "model_config", None)
        if given:
            config._rl_module_spec = dataclasses.replace(spec, model_config=None)
    if isinstance(given, DefaultModelConfig):
        plain = dataclasses.asdict(DefaultModelConfig())
        changed = {}
        for name, value in dataclasses.asdict(given).items():
            if value != plain[name]:
                changed[name] = value
        given = changed
    settings: dict[str, Any] = {}
    for name, value in (given or {}).items():
        if name.endswith(("_initializer", "_initializer_kwargs")):
            warnings.warn(
                f"model_config: {name} has no effect; weights start as in the algorithm's paper", stacklevel=2
            )
        else:
            settings[name] = value
    head = list(settings.pop("head_fcnet_hiddens", ()))
    activation = settings.pop("fcnet_activation", None)
    head_activation = settings.pop("head_fcnet_activation", None)
    if activation is not None:
        settings["activation"] = str(activation).lower()
    if head and head_activation not in (None, activation):
        raise ValueError(
            f"model_config: head_fcnet_activation is {head_activation!r}; expected fcnet_activation, {activation!r}, "
            "there is one activation"
        )
    if "fcnet_hiddens" in settings or head:
        settings["hiddens"] = [*settings.pop("fcnet_hiddens", DefaultModelConfig().fcnet_hiddens), *head]
    own = config.own_settings()
    for name, value in settings.items():
        if name not in MODEL_KEYS or name not in own:
            accepted = ["fcnet_hiddens", *(key for key in MODEL_KEYS if key in own)]
            title = type(config).__name__.removesuffix("Config")
            raise ValueError(f"model_config: {title} has no {name!r}; {accepted_names(name, accepted)}")
        setattr(config, name, value)
    config._model_config = {}
