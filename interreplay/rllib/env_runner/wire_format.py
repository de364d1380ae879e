"""Transitions and unrolls as one block of bytes, for transfers between processes.

A pickled tensor has some 300 bytes of overhead, which is more than the numbers of a short fragment.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from interreplay.transitions import Transitions, grouped
from interreplay.unrolls.unrolls import Unrolls, from_columns

Layout = list[tuple[str, str, tuple[int, ...]]]
Packed = tuple[bytes, Layout]


def pack(columns: Mapping[str, Tensor]) -> Packed:
    """Return the concatenated bytes of columns, and the name, the type and the shape of each."""
    layout = []
    data = bytearray()
    # Large numbers first, so that each column is aligned to the size of its numbers.
    for name, column in sorted(columns.items(), key=lambda pair: -pair[1].element_size()):
        array = column.cpu().numpy()
        layout.append((name, array.dtype.str, array.shape))
        data += array.tobytes()
    return bytes(data), layout


def unpack(packed: Packed) -> dict[str, np.ndarray]:
    """Return packed columns as writable arrays."""
    data, layout = packed
    memory = bytearray(data)
    offset = 0
    found: dict[str, np.ndarray] = {}
    for name, dtype, shape in layout:
        size = int(np.prod(shape, dtype=np.int64))
        found[name] = np.frombuffer(memory, np.dtype(dtype), size, offset).reshape(shape)
        offset += found[name].nbytes
    return found


def unpack_rows(packed: Packed) -> Transitions:
    """Return packed transitions."""
    return Transitions(**grouped(unpack(packed)))


def unpack_unrolls(packed: Packed) -> Unrolls:
    """Return packed unrolls."""
    return from_columns({name: torch.from_numpy(array) for name, array in unpack(packed).items()})
