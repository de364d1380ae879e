"""Saving and loading the checkpoints of our algorithms.

A checkpoint's folder contains ``checkpoint.json`` (the properties that an algorithm must share to load it, the class of
its configuration, the policy), ``state.json`` and ``arrays.safetensors`` (the configuration and everything that
training depends on), the same two files of the policy's weights in ``policy/``, and ``manifest.json`` (sizes and
checksums of all files). It contains no pickle.

The configuration is stored as the settings that differ from the defaults of its class. Settings that are not plain
data, such as callbacks or an environment given as a class, are listed by name; the caller passes them again. RLlib
imports and calls dotted names in many of its settings. Those settings are stored and restored only if their texts are
words without dots, so that an untrusted checkpoint cannot execute code.
"""

from __future__ import annotations

import json
import pickle
import pkgutil
import random
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.utils.annotations import override
from typing_extensions import Self

from interreplay.acting import stored_policy
from interreplay.environments.own_modules import import_user_class
from interreplay.environments.registration import inner_env_name
from interreplay.environments.spaces import space_from_record, space_to_record
from interreplay.errors import CheckpointError, UsageError, describe_error
from interreplay.learning.exploration import Exploration, exploration_class, get_exploration_name
from interreplay.learning.value.dqn import ConfiguredEpsilon
from interreplay.runs import state_files
from interreplay.runs.checkpoints import CHECKPOINT, read_description
from interreplay.runs.state_files.arrays import encode

ALGORITHM = "algorithm"
BUFFER = "replay_buffer"
LEARNER = ("learner_group", "learner")
NETWORKS = "/".join((*LEARNER, "rl_module"))
"""Components of an algorithm: its learner, and the networks of the learner."""
OF_RUN = ("environment", "replay buffer", "capacity")
"""Properties that may differ in a fork, and if only a part such as the networks is restored."""
RL_MODULE = "_rl_module_spec"
"""Setting with a user's RLModule."""
DERIVED = frozenset(("_is_frozen", "class", "policies", "simple_optimizer", "_run_training_always"))
"""Attributes that RLlib computes from the settings."""
TEXTS = frozenset(("env", "env_config", "replay_buffer_config"))
"""Settings with texts that are not imported, or are checked before they are imported."""
CHANGEABLE = frozenset(
    ("matrix_dtype", "conv_dtype", "critic_dropout", "initial_alpha", "initial_log_std", "initial_weights", "sigma0")
    + ("kappa", "huber_delta", "renorm_warm_up")
)
"""Settings of networks with which another algorithm can continue: number types, initial values, dropout and losses."""
_WORD = re.compile(r"[\w -]*")


class CheckpointedAlgorithm(Algorithm):
    """An algorithm with complete checkpoints, which are written atomically and contain no pickle."""

    config: Any
    learner: Any
    replay_buffer: Any
    single_spaces: Any
    capacity: Any

    def _identity(self) -> dict[str, str]:
        """Return the properties that a checkpoint and the algorithm that loads it must share."""
        observation_space, action_space = self.single_spaces
        kind = self.config.replay_buffer_config["type"]
        if not isinstance(kind, str):
            kind = getattr(kind, "__name__", type(kind).__name__)
        found = {
            "algorithm": type(self).__name__,
            "environment": inner_env_name(self.config.env, self.config.env_config),
            "observation space": str(observation_space),
            "action space": str(action_space),
            "replay buffer": kind,
            "capacity": self.capacity,
        }
        for name, value in self.config.network_settings.items():
            if isinstance(value, tuple):
                value = list(value)
            if name not in CHANGEABLE:
                found[f"setting {name}"] = str(value)
        return found

    def check_identity(self, folder: Path, same_run: bool) -> None:
        """Raise CheckpointError if a checkpoint does not fit; properties `OF_RUN` count for the `same_run` only."""
        saved = read_description(folder)["fits"]
        for name, mine in self._identity().items():
            if saved.get(name) != mine and (same_run or name not in OF_RUN):
                raise CheckpointError(
                    f"the checkpoint {folder} has the {name} {saved.get(name)!r}; this run has {mine!r}"
                )

    @override(Algorithm)
    def save_to_path(
        self, path: Any = None, *, state: dict[str, Any] | None = None, filesystem: None = None, **kwargs: Any
    ) -> str:
        """Save everything, including the replay buffer and the environments.

        Args:
            path: A local folder, which appears completely or not at all; a temporary one for None.
            state: The algorithm's state; the current one for None.
            filesystem: None; remote file systems are not supported.
            **kwargs: RLlib's options of its own format, ignored.

        Returns:
            The folder.

        Raises:
            TrainingDiverged: A loss or a weight is not finite; nothing is written.
            ValueError: The folder is not local.
        """
        self.learner.check_finite()
        if path is None:
            path = tempfile.mkdtemp(prefix="interreplay_")
        target = local_folder(path, filesystem)
        module = self.learner.single_module
        env = inner_env_name(self.config.env, self.config.env_config)
        description = module.described(self.config.normalize_actions, algorithm=type(self).__name__, env=env)
        weights: dict[str, Any] = {}
        if "own_code" not in description:  # otherwise, a user's code defines the networks
            for part in stored_policy.PARTS:
                weights[part] = dict(getattr(module.nets, part).state_dict())
        config = stored_config(self.config)
        about = {
            "fits": self._identity(),
            "class": config["class"],
            "not_stored": config["not_stored"],
            "policy": description,
        }
        contents = {
            "settings": config["settings"],
            ALGORITHM: self.get_state() if state is None else state,
            BUFFER: self.replay_buffer.state_view(),
        }

        def write(folder: Path) -> None:
            state_files.save(folder, contents)
            state_files.save(folder / stored_policy.POLICY, weights)
            (folder / CHECKPOINT).write_text(json.dumps(about, indent=1) + "\n")

        state_files.write_atomically(target, write)
        return str(target)

    @override(Algorithm)
    def restore_from_path(
        self, path: Any, *, component: str | None = None, filesystem: None = None, **kwargs: Any
    ) -> None:
        """Continue where a checkpoint was saved.

        Args:
            path: A local folder.
            component: Restore only this part, such as ``"learner_group/learner/rl_module"``.
            filesystem: None; remote file systems are not supported.
            **kwargs: RLlib's options of its own format, ignored.

        Raises:
            CheckpointError: The checkpoint is unreadable or damaged, or has another environment, algorithm, network or
                buffer.
            UsageError: Recorded experience has changed since the run began.
            ValueError: The folder is not local.
        """
        folder = state_files.resolve(local_folder(path, filesystem))
        self.check_identity(folder, same_run=not component)
        parts = component.split("/") if component else []
        state = state_files.load(folder, ALGORITHM, *parts)
        for part in reversed(parts):
            state = {part: state}
        try:
            self.set_state(state)
        except (OSError, EOFError, KeyError, ValueError) as error:
            raise CheckpointError(f"the checkpoint {folder} cannot be read: {error}") from error
        except RuntimeError as error:  # raised by PyTorch for parameters of other names or shapes
            raise CheckpointError(
                f"the networks of {folder} differ from this run's: {describe_error(error)}"
            ) from error
        if component:
            if component.startswith(NETWORKS):  # their normalization continues from its statistics
                self.learner.load_statistics(state_files.load(folder, ALGORITHM, *LEARNER))
            return
        try:
            self.replay_buffer.load_state_dict(state_files.load(folder, BUFFER))
        except UsageError:
            raise
        except KeyError as error:
            raise CheckpointError(f"the replay buffer in {folder} does not fit: its state has no {error}") from error
        except ValueError as error:
            raise CheckpointError(f"the replay buffer in {folder} does not fit: {error}") from error

    @classmethod
    @override(Algorithm)
    def from_checkpoint(  # type: ignore[override]
        cls, path: Any, filesystem: None = None, *, config: AlgorithmConfig | None = None, trusted: bool = False
    ) -> Self:
        """Build the algorithm of a checkpoint and continue where it was saved.

        RLlib's own ``Algorithm.from_checkpoint`` cannot read these checkpoints; call this method of the class.

        Args:
            path: A local folder, or a checkpoint of Ray Train.
            filesystem: None; remote file systems are not supported.
            config: A configuration to use instead of the stored one.
            trusted: Whether stored settings may name code.

        Raises:
            CheckpointError: The checkpoint cannot be read, or does not store all of its settings.
            ValueError: It belongs to another class, or is not local.
        """
        if hasattr(path, "to_directory"):
            path = path.to_directory()
        folder = state_files.resolve(local_folder(path, filesystem))
        if config is None:
            missing = ", ".join(read_description(folder)["not_stored"])
            if missing:
                raise CheckpointError(
                    f"the checkpoint {folder} does not store {missing}, which is not plain data; pass the "
                    "configuration again: from_checkpoint(path, config=...)"
                )
            config = load_config(folder, trusted)
        if not (isinstance(config.algo_class, type) and issubclass(config.algo_class, cls)):
            raise ValueError(f"the checkpoint {folder} is of {config.algo_class}; expected {cls.__name__}")
        algorithm: Any = config.build_algo()
        try:
            algorithm.restore_from_path(folder)
        except BaseException:
            algorithm.stop()
            raise
        return algorithm


def local_folder(path: Any, filesystem: Any) -> Path:
    """Return the absolute path of a checkpoint's folder."""
    if filesystem is not None:
        raise ValueError(f"filesystem is {filesystem!r}; expected None and a local folder")
    if "://" in str(path):
        raise ValueError(f"path is {str(path)!r}; expected a local folder, without a scheme")
    return Path(path).absolute()


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


def load_config(folder: Path, trusted: bool = False) -> Any:
    """Return the configuration in a checkpoint; settings that are not plain data have their defaults.

    Only `trusted` settings may name code.

    Raises:
        CheckpointError: The checkpoint is damaged, its class cannot be found, it has a user's RLModule, or a setting
            could execute code.
        UsageError: A user's class cannot be imported.
    """
    description = read_description(folder)
    if RL_MODULE in description["not_stored"]:
        raise CheckpointError(
            f"the checkpoint {folder} does not store its RLModule, which is a class of your own; pass the "
            "configuration again: from_checkpoint(path, config=...)"
        )
    config = _find_class(str(description["class"]))()
    for name, plain in state_files.load(folder, "settings").items():
        if name not in vars(config):
            raise CheckpointError(f"the checkpoint sets {name}, which {type(config).__name__} does not have")
        value = _from_plain(name, plain)
        if not (trusted or _is_harmless(config, name, value)):
            raise CheckpointError(f"the checkpoint sets {name} to {str(value)[:100]}, which could execute code")
        setattr(config, name, value)
    return config


def _find_class(name: str) -> type[Any]:
    """Return a class of this package, or import a user's class, as environments and replay buffers are imported."""
    module = name.rpartition(":")[0]
    if module.partition(".")[0] == "interreplay":
        try:
            found = pkgutil.resolve_name(name)
        except (ImportError, AttributeError, ValueError) as error:
            raise CheckpointError(f"the checkpoint is of {name}, which cannot be imported: {error}") from error
    else:
        found = import_user_class(name, AlgorithmConfig, "the checkpoint's class")
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
    """Return whether a setting is safe: RLlib cannot import its texts, since none of them has a dot or a slash."""
    if name in TEXTS or name in config.own_settings() or isinstance(value, gym.Space | Exploration):
        return True
    return all(map(_WORD.fullmatch, _iterate_texts(value)))


def _iterate_texts(value: Any) -> Iterator[str]:
    """Yield every text in nested containers, the keys of dicts included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _iterate_texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _iterate_texts(item)


def _as_plain(config: Any, name: str, value: Any) -> Any:
    """Return a setting as plain data; raise a TypeError if it is not plain data, or could name code."""
    if isinstance(value, gym.Space):
        return {"space": space_to_record(value)}
    if name == "exploration" and isinstance(value, Exploration):
        value = {"type": get_exploration_name(value), "attributes": dict(vars(value))}
    if name == "evaluation_config":
        # Callbacks that record videos or observe an evaluation are not part of the run.
        value = {key: item for key, item in (value or {}).items() if not key.startswith("callbacks")}
    encode(value, {})
    if not _is_harmless(config, name, value):
        raise TypeError(f"{name} names something that could be imported")
    return {"setting": value}


def _from_plain(name: str, stored: Mapping[str, Any]) -> Any:
    if "space" in stored:
        return space_from_record(stored["space"])
    value = stored["setting"]
    if name == "exploration" and isinstance(value, dict) and value.keys() == {"type", "attributes"}:
        exploration = object.__new__(exploration_class(value["type"]))
        vars(exploration).update(value["attributes"])
        return exploration
    return value


def global_rng() -> dict[str, Any]:
    """Return the states of the global generators of Python, numpy and torch, which environments may use."""
    legacy = np.random.get_state()  # noqa: NPY002
    return {"python": random.getstate(), "numpy": legacy, "torch": torch.get_rng_state().numpy()}


def set_global_rng(state: dict[str, Any]) -> None:
    """Restore the global generators from `global_rng`."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002
    torch.set_rng_state(torch.as_tensor(np.array(state["torch"])))
