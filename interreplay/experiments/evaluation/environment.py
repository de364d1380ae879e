"""The environment that a checkpoint names: whether it can be made here, found out before anything is."""

from __future__ import annotations

import importlib
import sys

import gymnasium as gym
from gymnasium.envs.registration import find_highest_version, parse_env_id
from ray.tune.registry import ENV_CREATOR, _global_registry

from interreplay.environments import registration
from interreplay.environments.own_modules import search_here
from interreplay.errors import UsageError, exits_as_errors


def check_environment(name: str, trusted: bool = False) -> None:
    """Import the module of an environment such as ``module:Env-v0`` and look the name up.

    Args:
        name: As the checkpoint has it.
        trusted: Whether RLlib may take it for a class to import, where Gymnasium does not know it.

    Raises:
        UsageError: It is unknown here, or its module cannot be imported.
    """
    if _global_registry.contains(ENV_CREATOR, name):
        return
    module, _, bare = name.rpartition(":")
    if module:
        _import(module, name)
    missing = registration.register(name)
    if missing:
        raise UsageError(f"the checkpoint's environment {name!r} needs: pip install 'interreplay[{missing}]'")
    if not trusted and not _known(bare):
        raise UsageError(
            f"the checkpoint's environment {name!r} is not registered with Gymnasium here; expected a registered id, "
            "or module:Env-v0 with a module that registers it"
        )


def _import(module: str, name: str) -> None:
    if module.partition(".")[0] in sys.stdlib_module_names:
        raise UsageError(f"the checkpoint's environment {name!r} names a module of Python's own; expected another")
    search_here()
    try:
        with exits_as_errors():
            importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the checkpoint's environment {name!r}: there is no module {error.name!r} to import; put the folder that "
            "holds it on PYTHONPATH"
        ) from None
    except Exception as error:  # whatever a module of somebody's does
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"the checkpoint's environment {name!r} cannot be imported: {reason}") from None


def _known(bare: str) -> bool:
    """Return whether Gymnasium knows an id, in any version where it names none."""
    if bare in gym.registry:
        return True
    try:
        namespace, name, version = parse_env_id(bare)
    except gym.error.Error:
        return False
    return version is None and find_highest_version(namespace, name) is not None
