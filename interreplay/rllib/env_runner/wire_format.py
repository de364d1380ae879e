"""Transitions, and unrolls, as one run of bytes, for the way between processes.

Pickled tensors carry some 300 bytes each beside their numbers, which is more than the numbers of a short fragment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.transitions import Transitions
from interreplay.unrolls.unrolls import Unrolls, from_columns

Layout = list[tuple[str, str, tuple[int, ...]]]
Packed = tuple[bytes, Layout]


def pack(columns: Mapping[str, Tensor]) -> Packed:
    """Return columns one after the other, and the name, the type and the shape of each."""
    arrays = _ordered(columns)
    layout = [(name, array.dtype.str, array.shape) for name, array in arrays]
    return b"".join(array.tobytes() for _, array in arrays), layout


def unpack(packed: Packed) -> dict[str, np.ndarray]:
    """Return columns that were packed; they may be written to."""
    data, layout = packed
    memory, begin = bytearray(data), 0
    found: dict[str, np.ndarray] = {}
    for name, dtype, shape in layout:
        kind, size = np.dtype(dtype), int(np.prod(shape, dtype=np.int64))
        found[name] = np.frombuffer(memory, kind, size, begin).reshape(shape)
        begin += found[name].nbytes
    return found


def unpack_rows(packed: Packed) -> Transitions:
    """Return transitions whose columns were packed."""
    found: dict[str, Any] = {}
    for name, array in unpack(packed).items():
        field, dot, part = name.partition(".")
        if dot:
            found.setdefault(field, {})[part] = array
        else:
            found[field] = array
    return Transitions(**found)


def unpack_unrolls(packed: Packed) -> Unrolls:
    """Return unrolls whose columns were packed."""
    return from_columns({name: torch.from_numpy(array) for name, array in unpack(packed).items()})


def _ordered(columns: Mapping[str, Tensor]) -> list[tuple[str, np.ndarray]]:
    """Return the columns, those of 8-byte numbers first: every one begins at a multiple of the size of its numbers."""
    found = [(name, column.cpu().numpy()) for name, column in columns.items()]
    return sorted(found, key=lambda pair: -pair[1].dtype.itemsize)
