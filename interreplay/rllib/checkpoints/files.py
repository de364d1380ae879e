"""Checkpoints: RLlib's own files, the replay buffer beside them, and what they belong to."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from interreplay.acting import stored_policy
from interreplay.buffer import ReplayBuffer
from interreplay.environments.wrapped import own_name
from interreplay.errors import CheckpointError
from interreplay.rllib.checkpoints import safe_pickle
from interreplay.rllib.checkpoints.stored_config import stored_config
from interreplay.runs import state_files

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

T = TypeVar("T")
IDENTITY = "interreplay.json"
BUFFER = "replay_buffer"
RLLIB = "rllib_files.json"


class Saved(Protocol):
    """An algorithm, as far as its checkpoints hold more than RLlib's own part.

    Attributes:
        config: Its configuration.
        single_spaces: Spaces of observations and actions of one environment.
        learner: Checked before its networks are saved.
        replay_buffer: Saved with it.
        capacity: How much it stores, as text.
    """

    config: Any
    single_spaces: Any
    learner: Any
    replay_buffer: ReplayBuffer
    capacity: str

    def described_policy(self) -> tuple[dict[str, Any], Any]:
        """Return a description of the policy and its networks, as `stored_policy.save` takes them."""


def identity(algorithm: Saved) -> dict[str, str]:
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


def save(algorithm: Saved, path: Any, save_rllib: Callable[[str], Any]) -> str:
    """Write a checkpoint into the folder `path`, which appears whole or not at all.

    Raises:
        TrainingDiverged: A loss or a weight is not finite; nothing is written.
    """
    algorithm.learner.check_finite()
    target = Path(tempfile.mkdtemp(prefix="interreplay_") if path is None else path).absolute()

    def write(folder: Path) -> None:
        save_rllib(str(folder))
        safe_pickle.name_class(folder)
        state_files.save(folder / BUFFER, algorithm.replay_buffer.state_view())
        stored_policy.save(folder, *algorithm.described_policy())
        (folder / IDENTITY).write_text(json.dumps(identity(algorithm), indent=2))

    state_files.write_atomically(target, write)
    return str(target)


def restore(algorithm: Saved, path: Any, restore_rllib: Callable[[str], Any], trusted: bool = False) -> None:
    """Continue from a checkpoint; one from elsewhere cannot run anything, unless it is trusted.

    Raises:
        CheckpointError: When it is unreadable, damaged, or does not fit the algorithm.
    """
    folder = state_files.resolve(Path(path).absolute(), trusted)
    check_fits(algorithm, folder)
    if not trusted:
        safe_pickle.check(folder)
    contents = state_files.load(folder / BUFFER)
    try:
        restore_rllib(str(folder))
    except (OSError, EOFError, KeyError, ValueError) as error:
        raise CheckpointError(f"the checkpoint {folder} cannot be read: {error}") from error
    try:
        algorithm.replay_buffer.load_state_dict(contents)
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"the replay buffer in {folder} does not fit: {error}") from error


def make(
    cls: type[T], path: Any, filesystem: None = None, *, config: AlgorithmConfig | None = None, trusted: bool = False
) -> T:
    """Return the algorithm of a checkpoint, ready to go on; arguments as in `CheckpointedAlgorithm.from_checkpoint`."""
    if filesystem is not None:
        raise ValueError(f"filesystem is {filesystem!r}; expected None and a local folder")
    folder = Path(path.to_directory() if hasattr(path, "to_directory") else path).absolute()
    folder = state_files.resolve(folder, trusted)
    config = stored_config(folder, trusted, whole=True) if config is None else config
    if not (isinstance(config.algo_class, type) and issubclass(config.algo_class, cls)):
        raise ValueError(f"the checkpoint {folder} is of {config.algo_class}; expected {cls.__name__}")
    algorithm: Any = config.build_algo()
    try:
        algorithm.restore_from_path(folder, trusted=trusted)
    except BaseException:
        algorithm.stop()
        raise
    return algorithm


def check_part(path: Any) -> None:
    """Look through the files of a part of a checkpoint, such as its networks, before they are loaded.

    Raises:
        CheckpointError: Loading them could run anything, or they lie on another machine.
    """
    if "://" in str(path):
        raise CheckpointError(f"{path} cannot be checked before it is loaded; expected a local folder, or trusted=True")
    safe_pickle.check(Path(path))


def check_fits(algorithm: Saved, folder: Path) -> None:
    """Raise CheckpointError unless the checkpoint belongs to such an algorithm."""
    try:
        saved = json.loads((folder / IDENTITY).read_text())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder} is not a readable checkpoint: {error}") from error
    for name, mine in identity(algorithm).items():
        if saved.get(name) != mine:
            raise CheckpointError(
                f"the checkpoint {folder} is of the {name} {saved.get(name)!r}; this run has {mine!r}"
            )
