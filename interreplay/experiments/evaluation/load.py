"""Load the algorithm of a checkpoint, ours or RLlib's, to act with it."""

from __future__ import annotations

import pickle
from pathlib import Path

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from interreplay.environments.wrapped import own_name
from interreplay.errors import CheckpointError, UsageError
from interreplay.experiments.evaluation.environment import check_environment
from interreplay.rllib.checkpoints.algorithm import config_of
from interreplay.runs import state_files
from interreplay.runs.checkpoints.search import CHECKPOINT, METADATA

CONSTRUCTOR = "class_and_ctor_args.pkl"
"""Where RLlib's own algorithms store their configuration."""


def saved_config(folder: Path, trusted: bool = False) -> AlgorithmConfig:
    """Return the configuration that a checkpoint was made with.

    Args:
        folder: The checkpoint.
        trusted: Whether loading it may execute code, as loading the pickles of RLlib's own algorithms can.

    Raises:
        CheckpointError: It cannot be read, or requires `trusted`.
        UsageError: Its environment cannot be imported here, or is unknown.
    """
    config = config_of(state_files.resolve(folder, trusted), trusted) if _is_ours(folder) else _pickled(folder, trusted)
    if isinstance(config.env, str):
        check_environment(own_name(config.env, config.env_config), trusted)
    return config


def _is_ours(folder: Path) -> bool:
    """Return whether a checkpoint is of our algorithms; old ones, which are no longer read, included."""
    return (folder / CHECKPOINT).exists() or (folder / state_files.MANIFEST).exists()


def _pickled(folder: Path, trusted: bool) -> AlgorithmConfig:
    """Return the configuration in a checkpoint of RLlib's own algorithms."""
    if not (folder / METADATA).exists():
        raise CheckpointError(f"the checkpoint {folder} cannot be read: {METADATA} is missing")
    if not trusted:
        raise CheckpointError(
            f"the checkpoint {folder} is of RLlib's own algorithms, and loading its pickles can execute code; "
            "--trust_checkpoint loads it"
        )
    try:
        with (folder / CONSTRUCTOR).open("rb") as file:
            (state,) = pickle.load(file)["ctor_args_and_kwargs"][0]
        return state["class"].from_state(state)
    except Exception as error:  # damaged bytes, or an error in the code that they name
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CheckpointError(f"the checkpoint {folder} cannot be read: {reason}") from error


def built(config: AlgorithmConfig) -> Algorithm:
    """Return the algorithm of a configuration.

    Raises:
        UsageError: It cannot be built here, for example because its environment has changed.
    """
    try:
        return config.build_algo()
    except Exception as error:  # the environment and RLlib raise errors of any class
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        name = own_name(config.env, config.env_config)
        raise UsageError(f"{config.algo_class.__name__} on {name} cannot be built here: {reason}") from error


def restore(algorithm: Algorithm, folder: Path) -> None:
    """Load a checkpoint of ours or RLlib's.

    Raises:
        CheckpointError: It cannot be read, or does not fit.
    """
    try:
        algorithm.restore_from_path(str(folder))
    except CheckpointError:
        raise
    except Exception as error:  # a file is missing, or an array has another shape than here
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise CheckpointError(f"the checkpoint {folder} cannot be loaded: {reason}") from error
