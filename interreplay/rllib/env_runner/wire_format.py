"""Transitions as one run of bytes, for the way between processes.

Pickled tensors carry some 300 bytes each beside their numbers, which is more than the numbers of a short fragment.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from interreplay.transitions import Transitions

Layout = list[tuple[str, str, tuple[int, ...]]]


def pack(rows: Transitions) -> tuple[bytes, Layout]:
    """Return the columns one after the other, and the name, the type and the shape of each."""
    columns = _columns(rows)
    layout = [(name, array.dtype.str, array.shape) for name, array in columns]
    return b"".join(array.tobytes() for _, array in columns), layout


def unpack(packed: tuple[bytes, Layout]) -> Transitions:
    """Return what was packed; the columns may be written to."""
    data, layout = packed
    memory, begin = bytearray(data), 0
    found: dict[str, Any] = {}
    for name, dtype, shape in layout:
        kind, size = np.dtype(dtype), int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(memory, kind, size, begin).reshape(shape)
        begin += array.nbytes
        field, dot, part = name.partition(".")
        if dot:
            found.setdefault(field, {})[part] = array
        else:
            found[field] = array
    return Transitions(**found)


def _columns(rows: Transitions) -> list[tuple[str, np.ndarray]]:
    """Return the columns, those of 8-byte numbers first: every one begins at a multiple of the size of its numbers."""
    found = [(name, column.cpu().numpy()) for name, column in rows.columns().items()]
    return sorted(found, key=lambda pair: -pair[1].dtype.itemsize)
