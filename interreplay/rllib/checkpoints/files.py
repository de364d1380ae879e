"""Checkpoints of our algorithms: what they store, and what they must fit when they are restored.

A checkpoint is a folder of plain data: ``checkpoint.json`` (what it belongs to, and a description of the policy),
``state.json`` and ``arrays.safetensors`` (the configuration and everything that training depends on), the same two
files of the policy's weights in ``policy/``, and ``manifest.json`` (sizes and checksums of all files). It contains no
pickle.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from interreplay.acting import stored_policy
from interreplay.environments.wrapped import own_name
from interreplay.errors import CheckpointError
from interreplay.rllib.checkpoints.stored_config import restored_config, stored_config
from interreplay.runs import state_files
from interreplay.runs.checkpoints.search import CHECKPOINT, read_description

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

T = TypeVar("T")
ALGORITHM = "algorithm"
BUFFER = "replay_buffer"


class Checkpointed(Protocol):
    """An algorithm, as far as its checkpoints require it.

    Attributes:
        config: Its configuration.
        single_spaces: Spaces of observations and actions of one environment.
        learner: Checked before its networks are saved.
        replay_buffer: The replay buffer, or the mix of several.
        capacity: How much it stores, as text.
    """

    config: Any
    single_spaces: Any
    learner: Any
    replay_buffer: Any
    capacity: str

    def described_policy(self) -> tuple[dict[str, Any], Any]:
        """Return a description of the policy and its networks, as `stored_policy.weights_of` takes them."""

    def get_state(self) -> dict[str, Any]:
        """Return everything but the replay buffer."""

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state."""


def identity(algorithm: Checkpointed) -> dict[str, str]:
    """Return what a checkpoint of this algorithm fits: the same environment, algorithm and buffer."""
    observation_space, action_space = algorithm.single_spaces
    arguments = dict(algorithm.config.replay_buffer_config)
    kind = arguments.pop("type")
    return {
        "algorithm": type(algorithm).__name__,
        "environment": own_name(algorithm.config.env, algorithm.config.env_config),
        "observation space": str(observation_space),
        "action space": str(action_space),
        "replay buffer": kind if isinstance(kind, str) else getattr(kind, "__name__", type(kind).__name__),
        "capacity": algorithm.capacity,
        "hidden layers": algorithm.config.layers,
    }


def save(algorithm: Checkpointed, path: Any, state: dict[str, Any] | None = None) -> str:
    """Write a checkpoint into the folder `path`, which appears completely or not at all.

    Args:
        algorithm: The algorithm.
        path: The folder; a temporary one for None.
        state: The state to be stored; the algorithm's current one for None.

    Raises:
        TrainingDiverged: A loss or a weight is not finite; nothing is written.
    """
    algorithm.learner.check_finite()
    target = Path(tempfile.mkdtemp(prefix="interreplay_") if path is None else path).absolute()
    description, nets = algorithm.described_policy()
    config = stored_config(algorithm.config)
    about = {
        "fits": identity(algorithm),
        "class": config["class"],
        "not_stored": config["not_stored"],
        "policy": description,
    }
    contents = {
        "settings": config["settings"],
        ALGORITHM: algorithm.get_state() if state is None else state,
        BUFFER: algorithm.replay_buffer.state_view(),
    }

    def write(folder: Path) -> None:
        state_files.save(folder, contents)
        state_files.save(folder / stored_policy.POLICY, stored_policy.weights_of(description, nets))
        (folder / CHECKPOINT).write_text(json.dumps(about, indent=1) + "\n")

    state_files.write_atomically(target, write)
    return str(target)


def restore(algorithm: Checkpointed, path: Any, component: str | None = None) -> None:
    """Continue from a checkpoint.

    Args:
        algorithm: A freshly built algorithm.
        path: The checkpoint's folder.
        component: Only this part of the algorithm's state, such as ``"learner_group/learner/rl_module"``.

    Raises:
        CheckpointError: The checkpoint is unreadable or damaged, or does not fit the algorithm.
    """
    folder = state_files.resolve(Path(path).absolute())
    check_fits(algorithm, folder)
    parts = component.split("/") if component else []
    state = state_files.load(folder, ALGORITHM, *parts)
    for part in reversed(parts):
        state = {part: state}
    try:
        algorithm.set_state(state)
    except (OSError, EOFError, KeyError, ValueError) as error:
        raise CheckpointError(f"the checkpoint {folder} cannot be read: {error}") from error
    if component:
        return
    try:
        algorithm.replay_buffer.load_state_dict(state_files.load(folder, BUFFER))
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"the replay buffer in {folder} does not fit: {error}") from error


def config_of(folder: Path, trusted: bool = False) -> AlgorithmConfig:
    """Return the configuration in a checkpoint; settings that are not plain data have their defaults.

    Raises:
        CheckpointError: The checkpoint is damaged, or its class cannot be imported.
    """
    about = read_description(folder)
    return restored_config({**about, "settings": state_files.load(folder, "settings")}, trusted)


def make(
    cls: type[T], path: Any, filesystem: None = None, *, config: AlgorithmConfig | None = None, trusted: bool = False
) -> T:
    """Return the algorithm of a checkpoint; the arguments are those of `CheckpointedAlgorithm.from_checkpoint`."""
    if filesystem is not None:
        raise ValueError(f"filesystem is {filesystem!r}; expected None and a local folder")
    folder = Path(path.to_directory() if hasattr(path, "to_directory") else path).absolute()
    folder = state_files.resolve(folder)
    if config is None:
        check_complete(read_description(folder), folder)
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


def check_complete(about: Mapping[str, Any], folder: Path) -> None:
    """Raise CheckpointError where a checkpoint does not store every setting of its configuration."""
    if about["not_stored"]:
        names = ", ".join(about["not_stored"])
        raise CheckpointError(
            f"the checkpoint {folder} does not store {names}, which is not plain data; pass the configuration again: "
            "from_checkpoint(path, config=...)"
        )


def check_fits(algorithm: Checkpointed, folder: Path) -> None:
    """Raise CheckpointError unless the checkpoint belongs to such an algorithm."""
    saved = read_description(folder)["fits"]
    for name, mine in identity(algorithm).items():
        if saved.get(name) != mine:
            raise CheckpointError(f"the checkpoint {folder} has the {name} {saved.get(name)!r}; this run has {mine!r}")
