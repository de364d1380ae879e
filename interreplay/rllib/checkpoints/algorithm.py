"""Saving and loading the checkpoints of our algorithms.

A checkpoint's folder contains ``checkpoint.json`` (what it fits, the class of its configuration, the policy),
``state.json`` and ``arrays.safetensors`` (the configuration and everything that training depends on), the same two
files of the policy's weights in ``policy/``, and ``manifest.json`` (sizes and checksums of all files). It contains no
pickle.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.utils.annotations import override
from typing_extensions import Self

from interreplay.acting import stored_policy
from interreplay.environments.wrapped import own_name
from interreplay.errors import CheckpointError
from interreplay.rllib.checkpoints.stored_config import restored_config, stored_config
from interreplay.runs import state_files
from interreplay.runs.checkpoints.search import CHECKPOINT, read_description

ALGORITHM = "algorithm"
BUFFER = "replay_buffer"


class CheckpointedAlgorithm(Algorithm):
    """An algorithm whose checkpoints are complete, are written atomically, and contain no pickle.

    Attributes:
        learner: Its networks are checked before they are saved.
        replay_buffer: The replay buffer, or the mix of several.
        single_spaces: Observation and action space of one environment.
        capacity: Number of stored rows, as text.
    """

    config: Any
    learner: Any
    replay_buffer: Any
    single_spaces: Any
    capacity: Any

    def described_policy(self) -> tuple[dict[str, Any], Any]:
        """Return a description of the policy and its networks, as `stored_policy.weights_of` takes them."""
        raise NotImplementedError

    def _identity(self) -> dict[str, str]:
        """Return the properties that a checkpoint and the algorithm that loads it must share."""
        observation_space, action_space = self.single_spaces
        kind = self.config.replay_buffer_config["type"]
        return {
            "algorithm": type(self).__name__,
            "environment": own_name(self.config.env, self.config.env_config),
            "observation space": str(observation_space),
            "action space": str(action_space),
            "replay buffer": kind if isinstance(kind, str) else getattr(kind, "__name__", type(kind).__name__),
            "capacity": self.capacity,
            "hidden layers": self.config.layers,
        }

    @override(Algorithm)
    def save_to_path(self, path: Any = None, *, state: dict[str, Any] | None = None, **kwargs: Any) -> str:
        """Save everything, including the replay buffer and the environments.

        Args:
            path: A local folder, which appears completely or not at all; a temporary one for None.
            state: The algorithm's state; the current one for None.
            **kwargs: RLlib's options of its own format, ignored.

        Returns:
            The folder.

        Raises:
            TrainingDiverged: A loss or a weight is not finite; nothing is written.
        """
        self.learner.check_finite()
        target = Path(tempfile.mkdtemp(prefix="interreplay_") if path is None else path).absolute()
        description, nets = self.described_policy()
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
            state_files.save(folder / stored_policy.POLICY, stored_policy.weights_of(description, nets))
            (folder / CHECKPOINT).write_text(json.dumps(about, indent=1) + "\n")

        state_files.write_atomically(target, write)
        return str(target)

    @override(Algorithm)
    def restore_from_path(self, path: Any, *, component: str | None = None, **kwargs: Any) -> None:
        """Continue where a checkpoint was saved.

        Args:
            path: A local folder.
            component: Restore only this part, such as ``"learner_group/learner/rl_module"``.
            **kwargs: RLlib's options of its own format, ignored.

        Raises:
            CheckpointError: The checkpoint is unreadable, damaged, or of another environment, algorithm or buffer.
        """
        folder = state_files.resolve(Path(path).absolute())
        saved = read_description(folder)["fits"]
        for name, mine in self._identity().items():
            if saved.get(name) != mine and not (component and name in ("replay buffer", "capacity")):
                raise CheckpointError(
                    f"the checkpoint {folder} has the {name} {saved.get(name)!r}; this run has {mine!r}"
                )
        parts = component.split("/") if component else []
        state = state_files.load(folder, ALGORITHM, *parts)
        for part in reversed(parts):
            state = {part: state}
        try:
            self.set_state(state)
        except (OSError, EOFError, KeyError, ValueError) as error:
            raise CheckpointError(f"the checkpoint {folder} cannot be read: {error}") from error
        if component:
            return
        try:
            self.replay_buffer.load_state_dict(state_files.load(folder, BUFFER))
        except (KeyError, ValueError) as error:
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
            ValueError: It is of another class, or not local.
        """
        if filesystem is not None:
            raise ValueError(f"filesystem is {filesystem!r}; expected None and a local folder")
        folder = Path(path.to_directory() if hasattr(path, "to_directory") else path).absolute()
        folder = state_files.resolve(folder)
        if config is None:
            _check_complete(read_description(folder), folder)
            config = config_of(folder, trusted)
        if not (isinstance(config.algo_class, type) and issubclass(config.algo_class, cls)):
            raise ValueError(f"the checkpoint {folder} is of {config.algo_class}; expected {cls.__name__}")
        algorithm: Any = config.build_algo()
        try:
            algorithm.restore_from_path(folder)
        except BaseException:
            algorithm.stop()
            raise
        return algorithm


def config_of(folder: Path, trusted: bool = False) -> AlgorithmConfig:
    """Return the configuration in a checkpoint; settings that are not plain data have their defaults.

    Raises:
        CheckpointError: The checkpoint is damaged, or its class cannot be imported.
    """
    about = read_description(folder)
    return restored_config({**about, "settings": state_files.load(folder, "settings")}, trusted)


def _check_complete(about: Mapping[str, Any], folder: Path) -> None:
    """Raise CheckpointError if a checkpoint does not store every setting of its configuration."""
    if about["not_stored"]:
        names = ", ".join(about["not_stored"])
        raise CheckpointError(
            f"the checkpoint {folder} does not store {names}, which is not plain data; pass the configuration again: "
            "from_checkpoint(path, config=...)"
        )


def global_rng() -> dict[str, Any]:
    """Return the states of the global generators of Python, numpy and torch, which environments may use."""
    legacy = np.random.get_state()  # noqa: NPY002
    return {"python": random.getstate(), "numpy": legacy, "torch": torch.get_rng_state().numpy()}


def set_global_rng(state: dict[str, Any]) -> None:
    """Restore the global generators from `global_rng`."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002
    torch.set_rng_state(torch.as_tensor(np.array(state["torch"])))
