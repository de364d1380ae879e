"""The configuration of an algorithm as plain data in its checkpoints, and back.

A checkpoint stores the settings that differ from the defaults of the configuration's class. Settings that are not
plain data, such as callbacks or an environment given as a class, are listed by name; the caller passes them again.
RLlib imports and calls dotted names in many of its settings. Those settings are stored and restored only if their
texts are words without dots, so that an untrusted checkpoint cannot execute code.
"""

from __future__ import annotations

import pickle
import pkgutil
import re
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from interreplay.acting.space_records import record_of, space_of
from interreplay.environments.own_modules import own_class
from interreplay.errors import CheckpointError
from interreplay.learning.exploration import KINDS, Exploration
from interreplay.learning.value.dqn import ConfiguredEpsilon
from interreplay.runs.state_files.arrays import encode

DERIVED = frozenset(("_is_frozen", "class", "policies", "simple_optimizer", "_rl_module_spec", "_run_training_always"))
"""Attributes that RLlib computes from the settings."""
TEXTS = frozenset(("env", "env_config", "replay_buffer_config"))
"""Settings whose texts are not imported, or are checked before they are imported."""
_WORD = re.compile(r"[\w -]*")


def stored_config(config: Any) -> dict[str, Any]:
    """Return a configuration as plain data.

    Returns:
        ``class``, the module and name of its class; ``settings``, the settings that differ from the defaults; and
        ``not_stored``, the names of settings that are not plain data.
    """
    defaults = vars(type(config)())
    settings = {}
    not_stored = []
    for name, value in vars(config).items():
        derived = name in DERIVED or name not in defaults or isinstance(value, ConfiguredEpsilon)
        if derived or _equal(value, defaults[name]):
            continue
        try:
            settings[name] = _as_plain(config, name, value)
        except (TypeError, ValueError):
            not_stored.append(name)
    cls = type(config)
    return {"class": f"{cls.__module__}:{cls.__qualname__}", "settings": settings, "not_stored": not_stored}


def restored_config(stored: Mapping[str, Any], trusted: bool = False) -> Any:
    """Return the configuration that `stored_config` stored; settings that were not stored have their defaults.

    Args:
        stored: The plain data.
        trusted: Whether settings may name code.

    Raises:
        CheckpointError: The configuration's class cannot be found, or a setting could execute code.
        UsageError: A user's class cannot be imported.
    """
    config = _class_of(str(stored["class"]))()
    for name, plain in stored["settings"].items():
        if name not in vars(config):
            raise CheckpointError(f"the checkpoint sets {name}, which {type(config).__name__} does not have")
        value = _from_plain(plain)
        if not (trusted or _is_harmless(config, name, value)):
            raise CheckpointError(f"the checkpoint sets {name} to {str(value)[:100]}, which could execute code")
        setattr(config, name, value)
    return config


def _class_of(name: str) -> type[Any]:
    """Return a class of this package, or import a user's class, as environments and replay buffers are imported.

    Raises:
        CheckpointError: It is not the configuration of an algorithm of this package.
        UsageError: A user's class cannot be imported.
    """
    module = name.rpartition(":")[0]
    if module.partition(".")[0] == "interreplay":
        try:
            found = pkgutil.resolve_name(name)
        except (ImportError, AttributeError, ValueError) as error:
            raise CheckpointError(f"the checkpoint is of {name}, which cannot be imported: {error}") from error
    else:
        found = own_class(name, AlgorithmConfig, "the checkpoint's class")
    if isinstance(found, type) and issubclass(found, AlgorithmConfig) and hasattr(found, "own_settings"):
        return found
    raise CheckpointError(f"the checkpoint is of {name}; expected a configuration of an algorithm of interreplay")


def _equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    try:
        return bool(one == other) or pickle.dumps(one) == pickle.dumps(other)
    except (pickle.PicklingError, TypeError, ValueError, AttributeError):
        return False


def _is_harmless(config: Any, name: str, value: Any) -> bool:
    """Return whether RLlib could not import a name in a setting: none of its texts has a dot or a slash."""
    if name in TEXTS or name in config.own_settings() or isinstance(value, gym.Space | Exploration):
        return True
    return all(_WORD.fullmatch(text) for text in _texts_in(value))


def _texts_in(value: Any) -> Iterator[str]:
    """Yield every text in nested containers, the keys of dicts included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _texts_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts_in(item)


def _as_plain(config: Any, name: str, value: Any) -> Any:
    """Return a setting as plain data.

    Raises:
        TypeError: It is not plain data, or could name code.
    """
    if isinstance(value, gym.Space):
        return {"space": record_of(value)}
    if name == "exploration" and isinstance(value, Exploration):
        kind = type(value).__name__
        if KINDS.get(kind) is not type(value):
            raise TypeError(f"{kind} is not one of {', '.join(KINDS)}")
        value = {"type": kind, "attributes": dict(vars(value))}
    if name == "evaluation_config":
        # Callbacks that record videos or observe an evaluation are not part of the run.
        value = {key: item for key, item in (value or {}).items() if _is_plain(item)}
    encode(value, {})
    if not _is_harmless(config, name, value):
        raise TypeError(f"{name} names something that could be imported")
    return {"setting": value}


def _from_plain(stored: Mapping[str, Any]) -> Any:
    if "space" in stored:
        return space_of(stored["space"])
    value = stored["setting"]
    if isinstance(value, dict) and value.keys() == {"type", "attributes"}:
        exploration = object.__new__(KINDS[value["type"]])
        vars(exploration).update(value["attributes"])
        return exploration
    return value


def _is_plain(value: Any) -> bool:
    try:
        encode(value, {})
    except TypeError:
        return False
    return True
