"""Cache of recorded experience: one copy per dataset, memory-mapped by all processes that draw from it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from interreplay.environments.relabeled import Relabel, RewardFunction
from interreplay.errors import CheckpointError, UsageError
from interreplay.experience.offline_data.collection import Collection, get_data_name
from interreplay.experience.offline_data.dataset import Spaces, reading
from interreplay.experience.offline_data.where import Where
from interreplay.runs import state_files
from interreplay.runs.run_folder import ensure_writable
from interreplay.runs.state_files import manifest
from interreplay.runs.state_files.disk import hold
from interreplay.storage.ring import FixedStorage, Storage
from interreplay.transitions import Transitions

FORMAT = 4
CACHE = "INTERREPLAY_CACHE"
ABOUT = "about.json"
STATE = "rows"
COPY = "copy"
PATIENCE = 3600.0
"""Seconds to wait for another process that creates the same copy."""


def cache_folder() -> Path:
    """Return the folder of the copies, in `INTERREPLAY_CACHE` or the user's cache; it can be deleted at any time."""
    if named := os.environ.get(CACHE):
        return Path(named) / "offline"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "interreplay" / "offline"


def open_rows(
    name: str | Sequence[str],
    spaces: Spaces | None = None,
    gamma: float = 0.99,
    where: Any = None,
    relabel: str | RewardFunction | None = None,
) -> FixedStorage:
    """Return the rows of recorded experience, memory-mapped from a copy that the first call creates.

    Arguments are as for `Offline`; `name` is its `data`.

    Raises:
        UsageError: The data do not exist, are damaged or belong to another environment, or the cache is not writable.
    """
    shown = get_data_name(name)
    try:
        rows = Collection(name, spaces, Where.parse(where), None if relabel is None else Relabel(relabel))
        files = []
        for path in rows.files:
            status = path.stat()
            files.append((str(path.resolve()), status.st_size, status.st_mtime_ns))
        home = cache_folder() / _digest([repr([FORMAT, files, rows.described]).encode()])
        if not (found := _load_copy(home / COPY)):
            ensure_writable(home, f"the cache of offline data ({CACHE})")
            with hold(home, "copying offline data", PATIENCE):
                if not _load_copy(home / COPY):  # another process may have created it meanwhile
                    _copy(rows, home / COPY)
            found = _load_copy(home / COPY)
    except CheckpointError as error:
        raise UsageError(f"offline data {shown} cannot be read: {error}") from error
    if found is None:
        raise UsageError(f"the copy of offline data {shown} in {home} cannot be read; remove that folder")
    return FixedStorage(found[1], found[0], shown, gamma)


def _load_copy(copy: Path) -> tuple[str, dict[str, Any]] | None:
    """Return the key and the state of a complete copy; None if there is no complete copy.

    Only file sizes are compared with the manifest, because checksums would require reading all rows at every start.
    """
    try:
        entries = manifest.read(copy)
        if any((copy / file).stat().st_size != size for file, (size, _) in entries.items()):
            return None
        return json.loads((copy / ABOUT).read_text())["key"], state_files.load(copy / STATE)
    except (CheckpointError, OSError, ValueError, KeyError):
        return None


def _copy(dataset: Collection, target: Path) -> None:
    """Read rows and write them as the state of a storage; after an error, no files remain."""
    portions: Iterable[Transitions] = dataset.portions()
    count = dataset.rows
    if count is None:
        portions = list(portions)
        count = sum(map(len, portions))
    if not count:
        raise UsageError(f"offline data {dataset.name} holds no steps")
    with reading(dataset.name):  # the declared count may not fit in memory
        state = _fill_storage(dataset.name, portions, count).state_dict()
    arrays = (state["rows"], state["tails"]["rows"], *(frames["pixels"] for frames in state["frames"].values()))
    key = _digest([repr(state["columns"]).encode(), *(memoryview(array.contiguous().numpy()) for array in arrays)])

    def write(folder: Path) -> None:
        state_files.save(folder / STATE, state)
        (folder / ABOUT).write_text(json.dumps({"key": key, "rows": count, "name": dataset.name}))

    try:
        state_files.write_atomically(target, write)
    except OSError as error:
        raise UsageError(f"offline data {dataset.name} cannot be copied to {target} ({error.strerror})") from error


def _fill_storage(name: str, portions: Iterable[Transitions], count: int) -> Storage:
    """Return a storage with the rows; episodes that have not ended are truncated."""
    storage = Storage(count)
    for rows in portions:
        if storage.written + len(rows) > count:
            raise UsageError(f"offline data {name} declares {count:,} steps, but contains more")
        storage.add(rows)
    if storage.written != count:
        raise UsageError(f"offline data {name} declares {count:,} steps, but contains {storage.written:,}")
    storage.truncate_episodes(list(storage.chain.episodes.open))
    return storage


def _digest(parts: Iterable[bytes | memoryview]) -> str:
    made = hashlib.blake2b(digest_size=8)
    for part in parts:
        made.update(part)
    return made.hexdigest()
