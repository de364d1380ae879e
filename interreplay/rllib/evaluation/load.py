"""Which checkpoint to let act, and its algorithm, loaded so that nothing runs that was not trusted."""

from __future__ import annotations

import json
from pathlib import Path

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from interreplay.environments.wrapped import own_name
from interreplay.errors import CheckpointError, UsageError
from interreplay.rllib.checkpoints import CheckpointedAlgorithm, safe_pickle
from interreplay.rllib.checkpoints.stored_config import stored_config
from interreplay.rllib.evaluation.environment import check_environment
from interreplay.runs import state_files
from interreplay.runs.checkpoints.search import METADATA
from interreplay.runs.state_files.manifest import MANIFEST


def saved_config(folder: Path, trusted: bool = False) -> AlgorithmConfig:
    """Return the configuration that a checkpoint was made with, as far as acting needs it.

    Raises:
        CheckpointError: When it cannot be read, or could run anything and is not trusted.
        UsageError: Its environment cannot be imported here, or is unknown.
    """
    try:
        json.loads((folder / METADATA).read_text())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"the checkpoint {folder} cannot be read: {error}") from error
    if (folder / MANIFEST).exists():
        state_files.resolve(folder, trusted)
    elif not trusted:
        safe_pickle.check(folder)
    config = stored_config(folder, trusted)
    if isinstance(config.env, str):
        check_environment(own_name(config.env, config.env_config), trusted)
    return config


def built(config: AlgorithmConfig) -> Algorithm:
    """Return the algorithm of a configuration.

    Raises:
        UsageError: It cannot be built here, as where its environment is not what it was.
    """
    try:
        return config.build_algo()
    except Exception as error:  # whatever the environment, or RLlib, has to say
        reason, name = (
            " ".join(str(error).split())[:300] or type(error).__name__,
            own_name(config.env, config.env_config),
        )
        raise UsageError(f"{config.algo_class.__name__} on {name} cannot be built here: {reason}") from error


def restore(algorithm: Algorithm, folder: Path, trusted: bool) -> None:
    """Load a checkpoint of ours or RLlib's.

    Raises:
        CheckpointError: It cannot be read, or does not fit.
    """
    try:
        algorithm.restore_from_path(
            str(folder), **({"trusted": trusted} if isinstance(algorithm, CheckpointedAlgorithm) else {})
        )
    except CheckpointError:
        raise
    except Exception as error:  # whatever is missing, or of another size than here
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise CheckpointError(f"the checkpoint {folder} cannot be loaded: {reason}") from error
