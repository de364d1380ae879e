"""States: nested dicts and lists of arrays and plain values, written to disk and read back.

No pickle is involved, so that a state from elsewhere can be read without running its code.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from interreplay.errors import CheckpointError
from interreplay.runs.state_files import manifest
from interreplay.runs.state_files.manifest import MANIFEST

STATE = "state.json"
MAPPED = 1 << 24  # bytes from which on an array is mapped into memory, not read


def save(directory: str | Path, state: Any) -> None:
    """Write a state: every array a ``.npy`` file, plain values in ``state.json``.

    Arrays are streamed from where they lie, without a second copy of them in memory.

    Args:
        directory: A folder, made where it does not exist.
        state: Nested dicts with string keys and lists of arrays and JSON values.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    names: list[str] = []
    tree = _write_arrays(folder, state, names)
    (folder / STATE).write_text(json.dumps(tree))


def load(directory: str | Path) -> Any:
    """Read what `save` wrote; large arrays come back mapped into memory from their files.

    Raises:
        CheckpointError: When a file is missing or cannot be read.
    """
    folder = Path(directory)
    try:
        return _read_arrays(folder, json.loads((folder / STATE).read_text()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{folder} cannot be read: {' '.join(str(error).split())}") from error


def _write_arrays(folder: Path, value: Any, names: list[str]) -> Any:
    if isinstance(value, dict):
        return {"dict": {key: _write_arrays(folder, item, names) for key, item in value.items()}}
    if isinstance(value, list | tuple):
        return {"list": [_write_arrays(folder, item, names) for item in value]}
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if not isinstance(value, np.ndarray):
        return {"value": value.item() if isinstance(value, np.generic) else value}
    names.append(f"{len(names)}.npy")
    np.save(folder / names[-1], value, allow_pickle=False)
    return {"array": names[-1]}


def _read_arrays(folder: Path, node: Any) -> Any:
    if "dict" in node:
        return {key: _read_arrays(folder, item) for key, item in node["dict"].items()}
    if "list" in node:
        return [_read_arrays(folder, item) for item in node["list"]]
    if "value" in node:
        return node["value"]
    path = folder / Path(node["array"]).name
    large = path.stat().st_size >= MAPPED
    # "c": writing to the array, which nobody should, would change memory only, never the checkpoint.
    return np.load(path, mmap_mode="c" if large else None, allow_pickle=False)


def write_atomically(path: str | Path, writer: Callable[[Path], None]) -> None:
    """Let `writer` fill a folder that appears at `path` whole, or not at all.

    It is written beside `path`, with a manifest of sizes and checksums, and renamed at the end. While a
    folder that is there already is replaced, it is called ``path.old`` for a moment; `resolve` finds it.

    Raises:
        CheckpointError: When there is something else at `path` that would be lost.
    """
    target = Path(path)
    if target.exists() and not (target.is_dir() and ((target / MANIFEST).exists() or not any(target.iterdir()))):
        raise CheckpointError(f"{target} holds something that is no checkpoint; choose a new or empty folder")
    work, old = target.with_name(f".{target.name}.writing"), target.with_name(f"{target.name}.old")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        writer(work)
        manifest.seal(work)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    if target.exists():
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
    work.rename(target)
    manifest.sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def resolve(path: str | Path, trusted: bool = False) -> Path:
    """Return the folder that `write_atomically` wrote last, after checking it against its manifest.

    Args:
        path: Its name.
        trusted: Whether it may hold links, and files that the manifest does not list.

    Raises:
        CheckpointError: When there is none, or one of its files is missing, damaged or was added later.
    """
    target = Path(path)
    old = target.with_name(f"{target.name}.old")
    folder = target if target.exists() or not old.exists() else old
    manifest.check(folder, trusted)
    return folder
