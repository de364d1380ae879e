"""Minari datasets: reading them by id or by path, and writing them."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from interreplay.environments.actions import NestedActions
from interreplay.environments.imports import suppress_logged_warnings
from interreplay.environments.registration import inner_env_name
from interreplay.environments.spaces import leaves, name_parts
from interreplay.errors import UsageError
from interreplay.experience.offline_data.dataset import Dataset, episode_rows, first_line, reading
from interreplay.transitions import Transitions

METADATA = "metadata.json"
MOST_STEPS = 2**31 - 1
"""Maximum number of rows of a storage."""


def is_minari_folder(folder: Path) -> bool:
    """Return whether a folder is a Minari dataset or its data folder."""
    return (folder / METADATA).is_file() or (folder / "data" / METADATA).is_file()


def open_folder(folder: Path) -> Dataset:
    """Return the dataset in a folder."""
    minari = _minari(f"offline data {folder}")
    data = folder / "data" if (folder / "data").is_dir() else folder
    return _dataset(str(folder), minari, data)


def open_id(name: str) -> Dataset:
    """Return the dataset of an id such as ``mujoco/halfcheetah/medium-v0``; download it if necessary."""
    minari = _minari(f"offline data {name}")
    shown = f"minari:{name}"
    from minari.storage import get_dataset_path

    try:
        data = get_dataset_path(name) / "data"
    except OSError as error:
        raise _folder_error(f"offline data {shown}", error) from error
    if not data.exists():
        _download(name)
    return _dataset(shown, minari, data)


def _folder_error(purpose: str, error: OSError) -> UsageError:
    """Return the error for a folder of all datasets that can neither be created nor listed."""
    folder = f"Minari's folder {error.filename} cannot be used ({error.strerror})"
    return UsageError(f"{purpose}: {folder}; the variable MINARI_DATASETS_PATH names another one")


def _download(name: str) -> None:
    """Download a dataset from Minari's remote, without the client's messages about retries."""
    from minari.storage import hosting
    from minari.storage.remotes import DEFAULT_REMOTE

    try:
        with suppress_logged_warnings():
            hosting.download_dataset(name)
    except Exception as error:  # the client's exceptions differ between its versions
        remote = os.environ.get("MINARI_REMOTE", DEFAULT_REMOTE)
        raise UsageError(
            f"offline data minari:{name} is not on this machine and cannot be downloaded from {remote}: "
            f"{first_line(error)}"
        ) from error


def check_new(name: str, purpose: str = "--record_data") -> None:
    """Check that a dataset of this name can be written; messages begin with `purpose`, by default a flag."""
    minari = _minari(f"{purpose} {name}")
    if not is_id(name):
        raise UsageError(
            f"{purpose} {name!r} is not a valid dataset name; expected name-vN or namespace/name-vN, such as "
            "pendulum/sac-v0"
        )
    try:
        known = minari.list_local_datasets()
    except OSError as error:
        raise _folder_error(f"{purpose} {name}", error) from error
    if name in known:
        raise UsageError(f"{purpose} {name}: the dataset already exists; choose another name or version")


def write(
    name: str,
    episodes: Iterable[Mapping[str, Any]],
    spaces: tuple[gym.Space, gym.Space],
    spec: Any,
    algorithm: str,
) -> str:
    """Write a dataset.

    Args:
        name: Name of the new dataset, such as ``pendulum/sac-v0``.
        episodes: Columns of each episode of T steps by their names in Minari: ``observations`` ``(T + 1, ...)`` and
            ``actions`` ``(T, ...)``, nested like their spaces, ``rewards``, ``terminations`` and ``truncations``.
        spaces: Observation space and action space of one environment.
        spec: Specification of the environment, omitted if it cannot be stored; None if it is unknown.
        algorithm: Name of the algorithm that acted.

    Returns:
        The name with the numbers of episodes and steps.
    """
    import minari
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_storage import is_image_space

    for space in spaces:
        check_keys(space)
    buffers = []
    for number, episode in enumerate(episodes):
        buffers.append(EpisodeBuffer(id=number, **episode))
    try:
        spec.to_json()
        gym.make(spec).close()  # as Minari does, which ends with an error and leaves an empty dataset
    except Exception:  # the entry point is a function, a wrapper does not record its arguments, or there is none
        spec = None
    options = {}
    if any(is_image_space(part) for part in leaves(spaces[0]).values()):
        options["jpeg_encoding"] = False  # JPEG changes images; Minari 0.5.3 cannot store them otherwise
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Minari warns about missing authors and links
            dataset = minari.create_dataset_from_buffers(
                name,
                buffers,
                env=spec,
                observation_space=spaces[0],
                action_space=spaces[1],
                algorithm_name=algorithm,
                requirements=[],
                data_format="hdf5" if find_spec("h5py") else "arrow",
                **options,
            )
    except (OSError, ValueError, TypeError, AssertionError) as error:
        raise UsageError(f"Minari cannot store {name}: {first_line(error)}") from error
    return f"{name} ({dataset.total_episodes} episodes, {dataset.total_steps:,} steps)"


def check_keys(space: gym.Space) -> None:
    """Reject a space with a Dict key that contains a slash, because Minari joins keys with slashes in HDF5 files."""
    if isinstance(space, gym.spaces.Tuple):
        for part in space:
            check_keys(part)
    elif isinstance(space, gym.spaces.Dict):
        for key, part in space.items():
            if "/" in str(key):
                raise UsageError(f"Minari cannot store the key {key!r} of {space}; expected keys without slashes")
            check_keys(part)


def is_id(name: str) -> bool:
    """Return whether a name is a valid dataset id with a version, such as ``pendulum/sac-v0``."""
    try:
        from minari.dataset.minari_dataset import parse_dataset_id

        return parse_dataset_id(name)[2] is not None
    except (ImportError, ValueError, TypeError):
        return False


def _minari(purpose: str) -> Any:
    try:
        import minari
    except ImportError:
        raise UsageError(f"{purpose} needs minari: pip install 'interreplay[minari]'") from None
    return minari


def _dataset(name: str, minari: Any, data: Path) -> Dataset:
    """Return the dataset in Minari's folder `data`."""
    files = sorted(path for path in data.rglob("*") if path.is_file())
    with reading(name):
        # Checked before memory is allocated for the steps; an episode takes at least one byte.
        totals = json.loads((data / METADATA).read_text())
        size = sum(file.stat().st_size for file in files)
        for total, most in (("total_steps", MOST_STEPS), ("total_episodes", size)):
            value = totals.get(total, 0)
            if isinstance(value, int) and not 0 <= value <= most:
                raise UsageError(f"offline data {name}: {total} is {value:.6g}; expected 1 to {most:,}")
        found = minari.MinariDataset(data)
        leaves(found.observation_space)  # rejects unsupported ones
        rows = int(found.total_steps)
        spec = found.env_spec
        env = "" if spec is None else inner_env_name(spec.id, spec.kwargs)

    def portions() -> Iterator[Transitions]:
        nested = isinstance(found.action_space, gym.spaces.Dict | gym.spaces.Tuple)
        for number, episode in enumerate(found.iterate_episodes()):
            actions = episode.actions
            if nested:  # the parts as one vector
                actions = NestedActions(found.action_space).flat(actions)
            yield episode_rows(
                name,
                number,
                name_parts(episode.observations),
                actions=np.asarray(actions),
                rewards=np.asarray(episode.rewards),
                terminated=np.asarray(episode.terminations, bool),
                truncated=np.asarray(episode.truncations, bool),
            )

    return Dataset(
        name,
        files,
        portions,
        rows=rows,
        observation_space=found.observation_space,
        action_space=found.action_space,
        env=env,
    )
