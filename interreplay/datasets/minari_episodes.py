"""Minari datasets, by id or by path."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from interreplay.datasets.dataset import Dataset, episode_rows, first_line, readable
from interreplay.environments.spaces import named_parts
from interreplay.errors import UsageError
from interreplay.transitions import Transitions

METADATA = "metadata.json"


def is_minari_folder(folder: Path) -> bool:
    """Return whether a folder is that of a dataset, or of its data."""
    return (folder / METADATA).is_file() or (folder / "data" / METADATA).is_file()


def open_folder(folder: Path) -> Dataset:
    """Return the dataset in a folder.

    Raises:
        UsageError: It cannot be read, or Minari is not installed.
    """
    minari = _minari(str(folder))
    data = folder / "data" if (folder / "data").is_dir() else folder
    with readable(str(folder)):
        return _dataset(str(folder), minari.MinariDataset(data), data)


def open_id(name: str) -> Dataset:
    """Return the dataset of an id such as ``mujoco/halfcheetah/medium-v0``, downloaded where it is not here yet.

    Raises:
        UsageError: There is none of this name, it cannot be downloaded or read, or Minari is not installed.
    """
    minari = _minari(name)
    shown = f"minari:{name}"
    try:
        found = minari.load_dataset(name)
    except FileNotFoundError:
        try:
            found = minari.load_dataset(name, download=True)
        except Exception as error:  # of the network, or of who answers there
            raise UsageError(
                f"offline data {shown} is not on this machine and cannot be downloaded: {first_line(error)}"
            ) from error
    except Exception as error:
        raise UsageError(f"offline data {shown} cannot be read: {first_line(error)}") from error
    return _dataset(shown, found, Path(found.storage.data_path))


def is_id(name: str) -> bool:
    """Return whether a name may be that of a dataset: with a version, such as ``pendulum/sac-v0``."""
    try:
        from minari.dataset.minari_dataset import parse_dataset_id

        return parse_dataset_id(name)[2] is not None
    except (ImportError, ValueError, TypeError):
        return False


def _minari(name: str) -> Any:
    try:
        import minari
    except ImportError:
        raise UsageError(f"offline data {name} needs minari: pip install 'interreplay[minari]'") from None
    return minari


def _dataset(name: str, found: Any, data: Path) -> Dataset:
    def portions() -> Iterator[Transitions]:
        for number, episode in enumerate(found.iterate_episodes()):
            yield episode_rows(
                name,
                number,
                named_parts(episode.observations),
                np.asarray(episode.actions),
                np.asarray(episode.rewards),
                np.asarray(episode.terminations, bool),
                np.asarray(episode.truncations, bool),
            )

    files = sorted(path for path in data.rglob("*") if path.is_file())
    rows = int(found.total_steps)
    return Dataset(name, files, portions, rows, found.observation_space, found.action_space)
