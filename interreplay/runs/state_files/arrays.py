"""States on disk: nested containers of arrays and plain values, in one JSON file and one array file.

``state.json`` holds the containers and the plain values. ``arrays.safetensors`` holds every array under its place in
the containers. Neither is a pickle, so loading an untrusted state does not execute code.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from torch import Tensor

from interreplay.errors import CheckpointError
from interreplay.runs.state_files import manifest
from interreplay.runs.state_files.disk import sync
from interreplay.runs.state_files.manifest import MANIFEST

STATE = "state.json"
ARRAYS = "arrays.safetensors"
PLAIN = (bool, int, float, str, type(None))
"""Types of plain values, which the JSON file holds as they are."""
MAPPED = 1 << 24
"""Minimum size in bytes of arrays that are mapped into memory instead of read."""


def save(directory: str | Path, state: Any) -> None:
    """Write a state into a folder. Arrays are written from where they are, without a second copy in memory.

    Args:
        directory: The folder, created if it does not exist.
        state: Nested dicts, lists and tuples of arrays, tensors, bytes and plain values. Keys of dicts are plain
            values, or tuples of these.

    Raises:
        OSError: The files cannot be written.
        TypeError: A value is of another type, or an array has a data type that the array file does not support.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, np.ndarray] = {}
    tree = encode(state, arrays)
    (folder / STATE).write_text(json.dumps(tree))
    try:
        save_file(arrays, folder / ARRAYS)
    except (KeyError, SafetensorError) as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number:  # such as a full disk
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(folder / ARRAYS)) from error
        raise TypeError(f"an array has a data type that {ARRAYS} does not support: {error}") from error


def load(directory: str | Path, *path: str) -> Any:
    """Read what `save` wrote, or the part of it under the keys `path`.

    Large arrays are mapped into memory; writing to them never changes the file.

    Raises:
        CheckpointError: A file is missing or cannot be read, or the state has no such part.
    """
    folder = Path(directory)
    try:
        node = json.loads((folder / STATE).read_text())
        for key in path:
            node = node["dict"][key]
        with safe_open(folder / ARRAYS, "pt") as file:  # safetensors maps files into memory for PyTorch only

            def read(name: str) -> np.ndarray:
                array = file.get_tensor(name).numpy()
                return array if array.nbytes >= MAPPED else array.copy()

            return decode(node, read)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
        raise CheckpointError(f"{folder} cannot be read: {' '.join(str(error).split())}") from error


def encode(value: Any, arrays: dict[str, np.ndarray], place: str = "") -> Any:
    """Return a state as JSON and collect its arrays by their places."""
    if isinstance(value, Mapping):
        items = []
        for number, (key, item) in enumerate(value.items()):
            written = key if isinstance(key, PLAIN) else encode(key, arrays, f"{place}/key {number}")
            items.append([written, encode(item, arrays, f"{place}/{key}")])
        return {"dict": dict(items)} if all(isinstance(key, str) for key in value) else {"items": items}
    if isinstance(value, list | tuple):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [encode(item, arrays, f"{place}/{number}") for number, item in enumerate(value)]}
    kind = "scalar" if isinstance(value, np.generic) else "array"
    if isinstance(value, bytes):
        kind = "bytes"
        value = np.frombuffer(value, np.uint8)
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray | np.generic):
        name = place.lstrip("/") or "array"
        if name in arrays:
            raise TypeError(f"{name} names two arrays; keys of a state must differ as text")
        array = np.asarray(value)
        # Tensors of convolutions can have their channels last in memory. The rounding of optimizers depends on this.
        axes = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
        if array.flags.c_contiguous or not array.transpose(axes).flags.c_contiguous:  # or an array with gaps
            axes = list(range(array.ndim))
        arrays[name] = np.asarray(array.transpose(axes), order="C")
        return {kind: name, "axes": axes}
    if isinstance(value, PLAIN):
        return {"value": value}
    raise TypeError(f"{place.lstrip('/')} is a {type(value).__name__}; expected an array or a plain value")


def decode(node: Any, array: Callable[[str], np.ndarray]) -> Any:
    """Return the state that `encode` encoded; `array` returns an array by its name."""
    kind, content = next(iter(node.items()))
    if kind == "dict":
        return {key: decode(item, array) for key, item in content.items()}
    if kind == "items":
        found = {}
        for written, item in content:
            key = decode(written, array) if isinstance(written, dict) else written
            found[key] = decode(item, array)
        return found
    if kind in ("list", "tuple"):
        items = [decode(item, array) for item in content]
        return tuple(items) if kind == "tuple" else items
    if kind == "array":
        read = array(content)
        return read.transpose(np.argsort(node.get("axes", range(read.ndim))))
    if kind == "scalar":
        return array(content)[()]
    if kind == "bytes":
        return array(content).tobytes()
    if kind == "value":
        return content
    raise ValueError(f"{kind!r} is not a kind of value")


def write_atomically(path: str | Path, writer: Callable[[Path], None]) -> None:
    """Call `writer` to fill a folder that appears at `path` completely or not at all.

    The folder is written next to `path`, with a manifest of sizes and checksums, and renamed at the end. A folder that
    is replaced is called ``path.old`` for a moment; `resolve` finds it there.

    Raises:
        CheckpointError: `path` exists and is neither a checkpoint nor an empty folder.
    """
    target = Path(path)
    if target.exists() and not (target.is_dir() and ((target / MANIFEST).exists() or not any(target.iterdir()))):
        raise CheckpointError(f"{target} exists and is not a checkpoint; choose a new or an empty folder")
    work = target.with_name(f".{target.name}.writing")
    old = target.with_name(f"{target.name}.old")
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
    sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def resolve(path: str | Path, trusted: bool = False) -> Path:
    """Return the folder that `write_atomically` wrote last, after checking it with `manifest.check`."""
    target = Path(path)
    old = target.with_name(f"{target.name}.old")
    folder = target if target.exists() or not old.exists() else old
    manifest.check(folder, trusted)
    return folder
