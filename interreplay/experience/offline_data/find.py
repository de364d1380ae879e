"""Lookup of recorded experience by path or id."""

from __future__ import annotations

import glob
from pathlib import Path

from interreplay.errors import UsageError
from interreplay.experience.offline_data import minari_episodes
from interreplay.experience.offline_data.dataset import Dataset
from interreplay.experience.offline_data.rllib_episodes import open_parquet, parquet_files
from interreplay.experience.offline_data.saved_rows import find_saved_buffer, has_rows, open_saved, open_store
from interreplay.experience.store.reader import find_store

MINARI = "minari:"
KINDS = (
    "a Minari dataset (its folder, or minari:ID), RLlib's Parquet episodes, a run's folder, an experience store, a "
    "checkpoint or a saved replay buffer"
)


def looks_like_data(name: str) -> bool:
    """Return whether a name refers to recorded experience rather than a replay method."""
    return has_wildcards(name) or name.startswith(MINARI) or "/" in name or Path(name).exists()


def has_wildcards(name: str) -> bool:
    """Return whether a name is a pattern such as ``results/*`` and not an existing path."""
    return glob.has_magic(name) and not name.startswith(MINARI) and not Path(name).exists()


def expand_pattern(name: str) -> list[str]:
    """Return the sorted absolute paths with recorded experience that match a pattern; other names unchanged."""
    if not has_wildcards(name):
        return [name]
    found = sorted(str(Path(path).absolute()) for path in glob.glob(str(Path(name).expanduser())))
    held = [path for path in found if holds_data(Path(path))]
    if not held:
        reason = "match it, but none contains recorded experience" if found else "match it"
        raise UsageError(f"offline data {name}: {len(found)} paths {reason}; expected {KINDS}")
    return held


def holds_data(path: Path) -> bool:
    """Return whether a path contains recorded experience; a damaged path counts as one that does.

    Runs that keep no transitions, such as those that learn from recorded experience alone, contain none.
    """
    if find_store(path) is not None or minari_episodes.is_minari_folder(path):
        return True
    if (state := find_saved_buffer(path)) is not None:
        return has_rows(state)
    return bool(parquet_files(path))


def find_dataset(name: str) -> Dataset:
    """Return the dataset of a path or an id.

    Raises:
        UsageError: The dataset does not exist or cannot be read.
        CheckpointError: The path is a damaged checkpoint.
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
    if path.is_dir() and (store := find_store(path)) is not None:
        return open_store(name, store)
    if path.is_dir() and (state := find_saved_buffer(path)) is not None:
        return open_saved(name, state)
    if files := parquet_files(path):
        return open_parquet(name, files)
    raise UsageError(f"offline data {name} has no known format; expected {KINDS}")
