"""States: nested dicts and lists of arrays and plain values, copied, written to disk and read back.

No pickle is involved, so that a state from elsewhere can be read without running its code.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from interreplay.errors import CheckpointError

STATE, MANIFEST = "state.json", "manifest.json"
FORMAT = 1
MAPPED = 1 << 24  # bytes from which on an array is mapped into memory, not read
BLOCK = 1 << 20  # bytes read at a time for a checksum


def copy_arrays(state: Any) -> Any:
    """A copy of a state that shares no memory with it."""
    if isinstance(state, dict):
        return {key: copy_arrays(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return [copy_arrays(value) for value in state]
    if isinstance(state, Tensor):
        return state.clone()
    return state.copy() if isinstance(state, np.ndarray) else state


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
    except (OSError, ValueError) as error:
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
    path = folder / node["array"]
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
        _seal(work)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    if target.exists():
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
    work.rename(target)
    _sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def resolve(path: str | Path) -> Path:
    """The folder that `write_atomically` wrote last, after checking it against its manifest.

    Raises:
        CheckpointError: When there is none, or one of its files is missing or damaged.
    """
    target = Path(path)
    old = target.with_name(f"{target.name}.old")
    folder = target if target.exists() or not old.exists() else old
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder} is not a complete checkpoint: {MANIFEST} cannot be read") from error
    if manifest.get("format") != FORMAT:
        raise CheckpointError(f"{folder} has the format {manifest.get('format')}; expected {FORMAT}")
    for name, (size, checksum) in manifest["files"].items():
        _check_file(folder / name, size, checksum)
    return folder


def _seal(folder: Path) -> None:
    """Flush every file to disk and write the manifest."""
    files = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        files[str(path.relative_to(folder))] = [path.stat().st_size, _checksum(path)]
        _sync(path)
    (folder / MANIFEST).write_text(json.dumps({"format": FORMAT, "files": files}))
    for path in (folder / MANIFEST, folder, *(p for p in folder.rglob("*") if p.is_dir())):
        _sync(path)


def _check_file(path: Path, size: int, checksum: int) -> None:
    found = path.stat().st_size if path.is_file() else None
    if found != size:
        raise CheckpointError(
            f"{path} has {found if found is not None else 'no'} bytes; expected {size}: the checkpoint is damaged"
        )
    if _checksum(path) != checksum:
        raise CheckpointError(f"{path} has another checksum than when it was saved: the checkpoint is damaged")


def _checksum(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            value = zlib.crc32(block, value)
    return value


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
