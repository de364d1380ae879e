"""From what was asked for, a path or an id, to the dataset that it means."""

from __future__ import annotations

from pathlib import Path

from interreplay.errors import UsageError
from interreplay.experience.offline_data import minari_episodes
from interreplay.experience.offline_data.dataset import Dataset
from interreplay.experience.offline_data.rllib_episodes import open_parquet, parquet_files
from interreplay.experience.offline_data.saved_rows import open_saved, saved_buffer_in

MINARI = "minari:"
KINDS = (
    "a Minari dataset (its folder, or minari:ID), RLlib's Parquet episodes, a run's folder, a checkpoint or a saved "
    "replay buffer"
)


def looks_like_data(name: str) -> bool:
    """Return whether a name means recorded experience, not a replay method."""
    return name.startswith(MINARI) or "/" in name or Path(name).exists()


def find_dataset(name: str) -> Dataset:
    """Return the dataset of a path or an id.

    Raises:
        UsageError: There is none, or it cannot be read.
        CheckpointError: It is a damaged checkpoint.
    """
    given = name.removeprefix(MINARI)
    path = Path(given).expanduser()
    if not path.exists():
        if minari_episodes.is_id(given):
            return minari_episodes.open_id(given)
        kinds = "an id with a version such as pendulum/sac-v0, or a path" if name.startswith(MINARI) else KINDS
        raise UsageError(f"offline data {name} does not exist; expected {kinds}")
    if path.is_dir() and minari_episodes.is_minari_folder(path):
        return minari_episodes.open_folder(path)
    if path.is_dir() and (state := saved_buffer_in(path)) is not None:
        return open_saved(name, state)
    if files := parquet_files(path):
        return open_parquet(name, files)
    raise UsageError(f"offline data {name} holds none that is known; expected {KINDS}")
