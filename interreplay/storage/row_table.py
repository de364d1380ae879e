"""Records: a table with one contiguous run of bytes per row.

A replay buffer reads rows at random places, so what a read costs is mostly the memory lines it touches. With all
columns of a row side by side, one gather of 112 bytes per HalfCheetah row took 17 µs for 256 rows of 10⁶, and one
gather per column 39 µs. On the CPU the table is also a structured numpy array over the same memory: its `take` needs
7 µs for these rows where torch's `index_select` needs 13, and a column of it costs a tenth of a torch slice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor


def shares_numpy(device: torch.device) -> bool:
    """Return whether numpy can work in place on tensors of this device: it is quicker with a few hundred rows."""
    return device.type == "cpu"


@dataclass(frozen=True)
class Field:
    """Where one column lies within a record.

    Attributes:
        name: Column name.
        shape: Shape of one row's value.
        dtype: Torch dtype.
        start: First byte within the record; a multiple of the dtype's size.
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    start: int

    @property
    def stop(self) -> int:
        return self.start + math.prod(self.shape) * self.dtype.itemsize

    @property
    def numpy_dtype(self) -> np.dtype:
        return torch.empty(0, dtype=self.dtype).numpy().dtype

    def view(self, rows: Tensor) -> Tensor:
        """Return this column ``(..., *shape)`` of records seen as bytes ``(..., width)``."""
        words, first = rows.view(self.dtype), self.start // self.dtype.itemsize
        if not self.shape:
            return words[..., first]
        return words[..., first : self.stop // self.dtype.itemsize].reshape(words.shape[:-1] + self.shape)


class RowTable:
    """`size` records of named columns on one device.

    Args:
        size: Number of rows.
        columns: ``{name: (shape of one row, dtype)}``, in the order in which they should lie in memory.
        device: Torch device.

    Raises:
        ValueError: When a dtype is none that numpy knows.
    """

    def __init__(self, size: int, columns: dict[str, tuple[tuple[int, ...], torch.dtype]], device: torch.device):
        self.fields: dict[str, Field] = {}
        end = 0
        for name, (shape, dtype) in columns.items():
            start = -(-end // dtype.itemsize) * dtype.itemsize
            self.fields[name] = Field(name, shape, dtype, start)
            end = self.fields[name].stop
        widest = max(f.dtype.itemsize for f in self.fields.values())
        self.width = -(-end // widest) * widest
        self.device = device
        self.rows = self._zeros(size)

    def _zeros(self, size: int) -> Tensor:
        if not shares_numpy(self.device):
            return torch.zeros(size, self.width, dtype=torch.uint8, device=self.device)
        return torch.from_numpy(np.zeros((size, self.width), np.uint8))  # rows never written to take no memory

    @property
    def rows(self) -> Tensor:
        """All records as bytes ``(size, width)``, uint8."""
        return self._rows

    @rows.setter
    def rows(self, rows: Tensor) -> None:
        self._rows = rows
        self._runs: dict[tuple[str, ...], tuple[np.ndarray | None, slice]] = {}
        self._table = rows.numpy().view(self._structure())[:, 0] if shares_numpy(self.device) else None

    def _structure(self) -> np.dtype:
        fields = self.fields.values()
        try:
            formats = [(f.numpy_dtype, f.shape) for f in fields]
        except TypeError as error:
            raise ValueError(
                f"columns are {[str(f.dtype) for f in fields]}; expected dtypes that numpy has, too"
            ) from error
        return np.dtype(
            {
                "names": [f.name for f in fields],
                "formats": formats,
                "offsets": [f.start for f in fields],
                "itemsize": self.width,
            }
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leave out arrays that are views, which are made again: pickle would copy them."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_table", "_runs")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.rows = self._rows

    def __len__(self) -> int:
        return self.rows.shape[0]

    @property
    def nbytes(self) -> int:
        return self.rows.numel()

    def column(self, name: str) -> Tensor:
        """Return a column of all rows ``(size, *shape)``, sharing memory with the table."""
        return self.fields[name].view(self.rows) if self._table is None else torch.from_numpy(self._table[name])

    def take(self, index: Tensor, names: Iterable[str]) -> dict[str, Tensor]:
        """Return columns by name of the rows at `index` ``(n,)`` int64; a copy in which a row still lies in one run."""
        return self.columns(self.copy(index), names)

    def copy(self, index: Tensor) -> Any:
        """Return the rows at `index` ``(n,)`` int64, whole; `columns` tells what is in them and in parts of them."""
        return self.rows.index_select(0, index) if self._table is None else self._table.take(index.numpy())

    def columns(self, rows: Any, names: Iterable[str]) -> dict[str, Tensor]:
        """Return columns, by name, of copied `rows` ``(...)``, sharing their memory."""
        if self._table is None:
            return {name: self.fields[name].view(rows) for name in names}
        return {name: torch.from_numpy(rows[name]) for name in names}

    def flat(self, index: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
        """Copy columns of the rows at `index` ``(n,)`` side by side, ``(n, D)`` in the widest of their dtypes.

        Columns that are neighbors in a table on the CPU come as they lie there: a single row in a third of the time.
        """
        if names not in self._runs:
            self._runs[names] = self._run([self.fields[name] for name in names])
        words, columns = self._runs[names]
        if words is not None:
            return words.take(index, axis=0)[:, columns]
        parts = self.take(torch.from_numpy(index).to(self.device), names).values()
        flat = [part.reshape(len(index), math.prod(part.shape[1:])) for part in parts]
        return torch.cat(flat, dim=1).numpy(force=True)

    def _run(self, fields: list[Field]) -> tuple[np.ndarray | None, slice]:
        """Return the table in the dtype of `fields` and where these lie in it; None when they are no neighbors."""
        first, last, size = fields[0], fields[-1], fields[0].dtype.itemsize
        adjacent = all(a.stop == b.start and a.dtype == b.dtype for a, b in pairwise(fields))
        table = self.rows.numpy().view(first.numpy_dtype) if adjacent and shares_numpy(self.device) else None
        return table, slice(first.start // size, last.stop // size)

    def write(self, start: int, values: dict[str, Tensor]) -> None:
        """Set columns of the rows from `start` on."""
        stop = start + len(next(iter(values.values())))
        if self._table is None:
            for name, value in values.items():
                self.fields[name].view(self.rows[start:stop]).copy_(value)
            return
        rows = self._table[start:stop]
        for name, value in values.items():
            rows[name] = value.numpy(force=True)

    @property
    def in_numpy(self) -> bool:
        """Whether `array` and `set_row` can be used."""
        return self._table is not None

    def array(self, name: str) -> np.ndarray:
        """Return a column ``(size, *shape)`` on the processor, sharing memory with the table."""
        assert self._table is not None
        return self._table[name]

    def set_row(self, row: int, values: dict[str, np.ndarray]) -> None:
        """Set columns of one row on the processor to values of length 1."""
        for name, value in values.items():
            self.array(name)[row] = value[0]

    def scatter(self, index: Tensor, values: dict[str, Tensor]) -> None:
        """Set columns of the rows at `index` ``(n,)``."""
        for name, value in values.items():
            if self._table is None:
                self.fields[name].view(self.rows)[index] = value.to(self.device)
            else:
                self._table[name][index.numpy()] = value.numpy(force=True)

    def grow(self, size: int) -> None:
        """Make room for `size` rows, keeping what is there."""
        grown = self._zeros(size)
        grown[: len(self)] = self.rows
        self.rows = grown
