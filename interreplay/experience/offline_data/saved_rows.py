"""Rows that this package wrote: of an experience store, or of a saved replay buffer (its state, or a checkpoint)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from interreplay.environments.registration import inner_env_name
from interreplay.errors import CheckpointError, UsageError
from interreplay.experience.offline_data.dataset import Dataset, reading
from interreplay.experience.store.reader import PORTION, ExperienceStore
from interreplay.runs import state_files
from interreplay.runs.checkpoints import is_checkpoint
from interreplay.runs.run_folder import RunFolder
from interreplay.storage.ring import Storage
from interreplay.transitions import Transitions

BUFFER = "replay_buffer"


def open_store(name: str, folder: Path) -> Dataset:
    """Return the dataset of a store."""
    with reading(name):
        store = ExperienceStore(folder)

    def rows() -> Iterator[Transitions]:
        store.check()
        yield from store.portions()

    return Dataset(
        name,
        store.files,
        rows,
        rows=store.rows,
        observation_space=store.header.observation_space,
        action_space=store.header.action_space,
        normalized=True,
        env=store.header.env,
        id=store.header.id,
        facts=lambda: {name: store.column(name) for name in ("version", "time")},
    )


def find_saved_buffer(folder: Path) -> Path | None:
    """Return the folder with a buffer: a state, a checkpoint, or the newest checkpoint of a run; None if not found."""
    newest = next(iter(RunFolder(folder).resumable()), folder)
    return newest if (newest / state_files.STATE).is_file() else None


def has_rows(folder: Path) -> bool:
    """Return whether a folder that `find_saved_buffer` found contains rows, or cannot be read."""
    try:
        return find_storage_state(_saved_state(folder)) is not None
    except CheckpointError:
        return True


def _saved_state(folder: Path) -> Any:
    part = [BUFFER] if is_checkpoint(folder) else []
    return state_files.load(folder, *part)


def open_saved(name: str, folder: Path) -> Dataset:
    """Return the rows in a folder that `find_saved_buffer` found.

    Raises:
        CheckpointError: The state is damaged.
        UsageError: The state contains no rows or cannot be read.
    """
    if (folder / state_files.MANIFEST).is_file():
        state_files.resolve(folder, trusted=True)
    with reading(name):
        state = find_storage_state(_saved_state(folder))
        if state is None:
            raise UsageError(f"offline data {name} holds no replayed transitions; expected a replay buffer with rows")
        storage = Storage(int(state["capacity"]))
        if int(state["written"]) < 1:
            raise UsageError(f"offline data {name} records {state['written']} written rows; expected 1 or more")
        storage.load_state_dict(dict(state))
        env = _env_name(folder) if is_checkpoint(folder) else ""
    files = sorted(path for path in folder.rglob("*") if path.is_file())

    def portions() -> Iterator[Transitions]:
        for start in range(storage.written - len(storage), storage.written, PORTION):  # in the order of writing
            numbers = torch.arange(start, min(start + PORTION, storage.written))
            yield storage[numbers % storage.capacity]

    return Dataset(name, files, portions, len(storage), normalized=True, env=env)


def _env_name(checkpoint: Path) -> str:
    """Return the id of the environment of a checkpoint; "" for an environment without an id."""
    settings = {}
    for name, stored in state_files.load(checkpoint, "settings").items():
        settings[name] = stored.get("setting")
    return inner_env_name(settings.get("env", ""), settings.get("env_config", {}))


def find_storage_state(state: Any) -> Mapping[str, Any] | None:
    """Return the state of the first storage with rows in the state of a buffer or mix; None if no storage has rows."""
    if not isinstance(state, Mapping):
        return None
    rows = state.get("storage")
    if isinstance(rows, Mapping) and rows.get("columns"):
        return rows
    for part in state.values():
        found = find_storage_state(part)
        if found is not None:
            return found
    return None
