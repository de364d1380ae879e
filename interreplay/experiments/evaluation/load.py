"""Load the algorithm of a checkpoint, one of this package or of RLlib, to act with it."""

from __future__ import annotations

import importlib
import pickle
import sys
from pathlib import Path

import gymnasium as gym
from gymnasium.envs.registration import find_highest_version, parse_env_id
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.tune.registry import ENV_CREATOR, _global_registry

from interreplay.environments import registration
from interreplay.environments.own_modules import check_outside_of_runs, search_current_folder
from interreplay.environments.registration import inner_env_name
from interreplay.errors import CheckpointError, UsageError, describe_error, exits_as_errors
from interreplay.rllib.checkpoints import load_config
from interreplay.rllib.host import needs_ray
from interreplay.rllib.ray_session import start_ray
from interreplay.runs import state_files
from interreplay.runs.checkpoints import CHECKPOINT, read_description

CONSTRUCTOR = "class_and_ctor_args.pkl"
"""File in which RLlib's own algorithms store their configuration."""


def read_config(folder: Path, trusted: bool = False) -> AlgorithmConfig:
    """Return the configuration stored in a checkpoint.

    RLlib's own algorithms store pickles, whose loading may execute code; they must be trusted.
    """
    if (folder / CHECKPOINT).exists():
        resolved = state_files.resolve(folder, trusted)
        missing = [name for name in ("env", "env_config") if name in read_description(resolved)["not_stored"]]
        if missing:
            raise CheckpointError(
                f"the checkpoint {folder} does not store {' and '.join(missing)}, which is not plain data; "
                "in Python, from_checkpoint(path, config=...) takes the configuration again"
            )
        config = load_config(resolved, trusted)
    elif not trusted:
        raise CheckpointError(
            f"the checkpoint {folder} was made by RLlib's own algorithms, and loading its pickles can execute code; "
            "--trust_checkpoint loads it"
        )
    else:
        try:
            with (folder / CONSTRUCTOR).open("rb") as file:
                (state,) = pickle.load(file)["ctor_args_and_kwargs"][0]
            config = state["class"].from_state(state)
        except Exception as error:  # damaged bytes, or an error in the code that they name
            raise CheckpointError(f"the checkpoint {folder} cannot be read: {describe_error(error)}") from error
    if isinstance(config.env, str):
        check_environment(inner_env_name(config.env, config.env_config), trusted)
    return config


def build_algorithm(config: AlgorithmConfig) -> Algorithm:
    """Return the algorithm of a configuration."""
    if needs_ray(config):
        start_ray(1)
    try:
        return config.build_algo()
    except Exception as error:  # the environment and RLlib raise errors of any class
        name = inner_env_name(config.env, config.env_config)
        reason = describe_error(error)[:300]
        raise UsageError(f"{config.algo_class.__name__} on {name} cannot be built here: {reason}") from error


def restore(algorithm: Algorithm, folder: Path) -> None:
    """Load a checkpoint into an algorithm."""
    parts: list[str | None] = [None]
    if (folder / CHECKPOINT).exists() and "replay_buffer_config" in read_description(folder).get("not_stored", ()):
        parts = ["learner_group", "env_runner"]  # the replay method has arguments that are not plain data
    try:
        for part in parts:
            algorithm.restore_from_path(str(folder), component=part)
    except CheckpointError:
        raise
    except Exception as error:  # a file is missing, or an array has another shape
        raise CheckpointError(f"the checkpoint {folder} cannot be loaded: {describe_error(error)[:300]}") from error


def check_environment(name: str, trusted: bool = False) -> None:
    """Check that the environment of a checkpoint, such as ``module:Env-v0``, is registered here, and import its module.

    A trusted id may be unknown to Gymnasium; RLlib imports it as a class.
    """
    if _global_registry.contains(ENV_CREATOR, name):
        return
    module, _, bare = name.rpartition(":")
    if module.partition(".")[0] in sys.stdlib_module_names:
        raise UsageError(
            f"the checkpoint's environment {name!r} names a module of the standard library; expected another module"
        )
    if module:
        check_outside_of_runs(module, f"the checkpoint's environment {name!r}")
    search_current_folder()
    missing = registration.register(name)
    if missing:
        raise UsageError(f"the checkpoint's environment {name!r} needs: pip install 'interreplay[{missing}]'")
    try:
        with exits_as_errors():
            if module:
                importlib.import_module(module)
            namespace, kind, version = parse_env_id(bare)
            known = bare in gym.registry or (version is None and find_highest_version(namespace, kind) is not None)
            if not known and not trusted:
                raise gym.error.NameNotFound(bare)
    except gym.error.Error:
        raise UsageError(
            f"the checkpoint's environment {name!r} is not registered with Gymnasium here; expected a registered id, "
            "or module:Env-v0 with a module that registers it"
        ) from None
    except Exception as error:  # code of the user
        reason = describe_error(error)
        raise UsageError(
            f"the checkpoint's environment {name!r} cannot be imported ({reason}); put its folder on PYTHONPATH"
        ) from None
