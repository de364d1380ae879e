"""The configuration in a checkpoint, rebuilt from plain values: RLlib imports and calls any dotted name in one.

Settings are taken over by what they are: numbers always, words where they choose among what an algorithm knows, a few
parts one by one. Callbacks, buffers of RLlib's, exploration, inputs and outputs and whatever else may name code stay
as the algorithm has them by default.
"""

from __future__ import annotations

import io
import pickle
import pkgutil
import re
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from ray import cloudpickle
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.models.catalog import Catalog
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec

from interreplay.buffer.catalogue import OF_PARTS, methods
from interreplay.environments.own_modules import own_class
from interreplay.errors import CheckpointError
from interreplay.experience.recipes import COMPOSED
from interreplay.learning.algorithms_table import FRESH, MIX
from interreplay.learning.exploration import Exploration
from interreplay.rllib.checkpoints import safe_pickle
from interreplay.rllib.checkpoints.moved import settings_of_before
from interreplay.rllib.checkpoints.safe_pickle import ClassReference, RestrictedUnpickler

CONFIGS = ("ray.rllib.algorithms.", "interreplay.rllib.")
MODULES = (*CONFIGS, "ray.rllib.core.")
STOCK_BUFFER = "interreplay.rllib.ReplayBuffer"
_NEW_STACK = ("enable_rl_module_and_learner", "enable_env_runner_and_connector_v2")
NEEDED = frozenset(
    ("env", "policies", "_rl_module_spec", "_model_config", "_env_to_module_connector", "_module_to_env_connector")
    + _NEW_STACK
)
"""Settings without which a policy would act otherwise, or could not be restored."""
_WORDS = {"framework_str", "grad_clip_by", "rollout_fragment_length", "batch_mode", "observation_filter"}
_WORDS |= {"gym_env_vectorize_mode", "evaluation_duration_unit", "count_steps_by", "log_level", "placement_strategy"}
_WORDS |= {"merge_env_runner_states", "num_cpus_per_learner"}
_MODELS = {"model", "q_model_config", "policy_model_config", "optimization"}
_WORD = re.compile(r"[\w -]*")
_LEFT_OUT = object()


def stored_config(folder: Path, trusted: bool = False, whole: bool = False) -> AlgorithmConfig:
    """Return the configuration that a checkpoint was made with, as far as it is needed to act.

    Args:
        folder: The checkpoint.
        trusted: Whether it may name anything; it is then taken over as it is.
        whole: Whether all settings are needed, as for training; one that is not taken over is then refused.

    Raises:
        CheckpointError: It cannot be read, or a setting that is needed could run anything.
    """
    try:
        (state,) = safe_pickle.load(folder / safe_pickle.CONSTRUCTOR, trusted, others=True)["ctor_args_and_kwargs"][0]
        return state["class"].from_state(state) if trusted else _rebuilt(folder, state, whole)
    except (CheckpointError, KeyboardInterrupt):
        raise
    except Exception as error:  # whatever damaged bytes, or code that was trusted, lead to
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CheckpointError(f"the checkpoint {folder} cannot be read: {reason}") from error


def _rebuilt(folder: Path, state: dict[str, Any], whole: bool) -> AlgorithmConfig:
    config = looked_up(state["class"], AlgorithmConfig, CONFIGS)()
    before = _as_stored(config)
    state = settings_of_before(state, vars(config))
    for name in vars(config).keys() & before.keys() & state.keys() - {"class"}:
        value = state[name]
        if _same(value, before[name]):
            continue
        taken = _taken(config, name, value)
        if taken is not _LEFT_OUT:
            setattr(config, name, taken)
        elif whole or name in NEEDED or (name == "replay_buffer_config" and _is_ours(config)):
            raise CheckpointError(
                f"the configuration in {folder} sets {name} to {str(value)[:100]}, which could run anything; "
                "--trust_checkpoint, or trusted=True, loads it nevertheless"
            )
    return config


def _as_stored(config: AlgorithmConfig) -> dict[str, Any]:
    """Return the state of a configuration as it comes out of a checkpoint, classes as references."""
    file = io.BytesIO(cloudpickle.dumps(config.get_state()))
    return RestrictedUnpickler(file, Path(type(config).__name__), classes=True, others=True).load()


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    try:
        return bool(one == other) or pickle.dumps(one) == pickle.dumps(other)
    except (pickle.PicklingError, TypeError, ValueError, AttributeError):
        return False


def looked_up(reference: Any, base: type, modules: tuple[str, ...]) -> Any:
    """Return the class that a checkpoint names.

    A user's class is imported by its name, as environments and replay buffers are.

    Raises:
        CheckpointError: It lies elsewhere than in these modules, or is no subclass of `base`.
        UsageError: A user's class cannot be imported, or is no subclass of `base`.
    """
    if isinstance(reference, ClassReference) and reference.module.partition(".")[0] not in ("ray", "interreplay"):
        found = own_class(f"{reference.module}:{reference.name}", base, "class")
        if _derives_from_ours(found):
            return found
    if isinstance(reference, ClassReference) and reference.module.startswith(modules):
        found = pkgutil.resolve_name(f"{reference.module}:{reference.name}")
        if isinstance(found, type) and issubclass(found, base):
            return found
    raise CheckpointError(f"the checkpoint names {reference}; expected a {base.__name__} of {' or '.join(modules)}")


def _is_ours(config: AlgorithmConfig) -> bool:
    return _derives_from_ours(type(config))


def _derives_from_ours(kind: type) -> bool:
    return any(base.__module__.startswith("interreplay.") for base in kind.__mro__)


def _taken(config: AlgorithmConfig, name: str, value: Any) -> Any:
    """Return a setting as it is taken over, or `_LEFT_OUT`."""
    ours = _is_ours(config)
    if name in _NEW_STACK:
        return _LEFT_OUT
    if name == "env":
        return value if isinstance(value, str) else _LEFT_OUT
    if name in ("observation_space", "action_space"):
        return value if isinstance(value, gym.Space) else _LEFT_OUT
    if name == "_rl_module_spec":
        return _module_spec(value)
    if name in _MODELS or name == "_model_config":
        return _model(value, getattr(config, name))
    if name == "evaluation_config":
        return _overrides(config, value)
    if name == "replay_buffer_config":
        return value if ours and _is_buffer(value) else _LEFT_OUT
    if ours and (isinstance(value, Exploration) or _is_settings(value)):
        return value
    own = ours and (name not in vars(AlgorithmConfig()) or name in config.own_settings())
    return value if _is_plain(value, words=own or name in _WORDS, texts=name == "env_config") else _LEFT_OUT


def _is_plain(value: Any, words: bool = False, texts: bool = False) -> bool:
    """Return whether a value consists of numbers, and of words or any texts where these are allowed."""
    if value is None or isinstance(value, bool | int | float | np.number | np.bool_):
        return True
    if isinstance(value, str):
        return texts or (words and bool(_WORD.fullmatch(value)))
    if isinstance(value, dict):
        return all(isinstance(key, str | int) and _is_plain(item, words, texts) for key, item in value.items())
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf"
    return type(value) in (list, tuple) and all(_is_plain(item, words, texts) for item in value)


def _is_settings(value: Any) -> bool:
    """Return whether a value is a dataclass of ours with plain values."""
    own = is_dataclass(value) and type(value).__module__.startswith("interreplay.learning.")
    return own and all(_is_plain(item, words=True) for item in vars(value).values())


def _is_buffer(value: Any) -> bool:
    """Return whether a buffer is one of the catalogue, a mix of such by name, or a class, with plain arguments.

    A class is named as ``module:Class``, as environments are: nothing but a buffer is ever made of it.
    """
    if not isinstance(value, dict) or not _is_plain(value, texts=True):
        return False
    kind = value.get("buffer", "Uniform") if value.get("type") == STOCK_BUFFER else value.get("type")
    return isinstance(kind, str) and (":" in kind or kind in methods() or kind in (*COMPOSED, FRESH, MIX, OF_PARTS))


def _model(value: Any, default: Any = None) -> Any:
    """Lay settings of networks over the default ones, complete as RLlib expects; none of classes of one's own."""
    if isinstance(value, DefaultModelConfig):
        return value if _is_plain(vars(value), words=True) else _LEFT_OUT
    if not isinstance(value, dict):
        return _LEFT_OUT
    given = {name: item for name, item in value.items() if not str(name).startswith("custom_")}
    return {**(default or {}), **given} if _is_plain(given, words=True) else _LEFT_OUT


def _module_spec(value: Any) -> Any:
    """Return the networks; without a path that their weights would be loaded from."""
    if not isinstance(value, RLModuleSpec):
        return _LEFT_OUT
    given: dict[str, Any] = {"inference_only": bool(value.inference_only), "learner_only": bool(value.learner_only)}
    for name, base in (("module_class", RLModule), ("catalog_class", Catalog)):
        if getattr(value, name) is not None:
            given[name] = looked_up(getattr(value, name), base, MODULES)
    for name in ("observation_space", "action_space"):
        space = getattr(value, name)
        given[name] = space if isinstance(space, gym.Space) else None
    if value.model_config is not None:
        given["model_config"] = _model(value.model_config)
        if given["model_config"] is _LEFT_OUT:
            return _LEFT_OUT
    return RLModuleSpec(**given)


def _overrides(config: AlgorithmConfig, value: Any) -> Any:
    """Return settings for evaluations; without the camera that films them, which is switched off in a checkpoint."""
    if not isinstance(value, dict):
        return _LEFT_OUT
    known = {name: item for name, item in value.items() if type(item).__name__ != "Camera"}
    taken = {name: _taken(config, name, item) for name, item in known.items() if name != "evaluation_config"}
    return _LEFT_OUT if any(item is _LEFT_OUT for item in taken.values()) else taken
