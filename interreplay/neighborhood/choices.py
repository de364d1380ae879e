"""Choices: whole-number parts of rows, such as Discrete ones. A row of another choice is no neighbor.

Lists of neighbors are kept in one graph for all choices. Beside its numbers a row has a code there, a corner of a
cube that is the same for equal choices, and mostly another one for others, which then lie further away than a row's own
neighbors. What is found is compared by the choices themselves; codes only make it likely that enough is found.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from interreplay.storage.columns import choice_columns

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage

CODE = 8
"""Numbers of a code."""
APART = 8.0
"""How far codes lie apart at least, in standard deviations of a feature."""
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB), np.uint64(0x9E3779B97F4A7C15))


class Choices:
    """The choices of what is stored.

    Args:
        storage: Where.
        count: Whether to count the rows of each choice.

    Attributes:
        names: The columns that are choices, those of the observation and the actions.
    """

    def __init__(self, storage: Storage, count: bool = True):
        self.names = choice_columns(storage.columns)
        self._counts: Counter[int] = Counter()
        if self.names and count:
            stored = np.arange(storage.written - len(storage), storage.written) % storage.capacity
            self.add(storage, torch.from_numpy(stored))

    def read(self, storage: Storage, slots: Tensor) -> Tensor:
        """Return the choices of the rows in `slots` ``(n,)``, int64 ``(n, c)``."""
        columns = [storage.column(name).index_select(0, slots) for name in self.names]
        return torch.cat([column.reshape(len(slots), -1).long() for column in columns], dim=1)

    def reader(self, storage: Storage) -> Callable[[Tensor], Tensor] | None:
        """Return what reads the choices of slots, None where there are none."""
        return functools.partial(self.read, storage) if self.names else None

    def same(self, storage: Storage, slots: Tensor, others: Tensor) -> Tensor:
        """Return which of the rows in `others` ``(n, m)`` have the choices of those in `slots` ``(n,)``."""
        own = self.read(storage, slots).unsqueeze(1)
        return (self.read(storage, others.reshape(-1)).view(*others.shape, -1) == own).all(dim=2)

    def keys(self, storage: Storage, slots: Tensor) -> np.ndarray:
        """Return a number for the choices of each row, uint64 ``(n,)``: splitmix64 over them, one after the other."""
        key = np.zeros(len(slots), np.uint64)
        for column in self.read(storage, slots).numpy(force=True).T:
            key = _mixed(key ^ (column.astype(np.uint64) + _MIX[2]))
        return key

    def add(self, storage: Storage, slots: Tensor) -> None:
        """Take note of rows that were just stored."""
        self._counts.update(self.keys(storage, slots).tolist())

    def remove(self, storage: Storage, slots: Tensor) -> None:
        """Take leave of rows that are about to be overwritten."""
        self._counts.subtract(gone := self.keys(storage, slots).tolist())
        for key in gone:
            if not self._counts[key]:
                del self._counts[key]

    def others(self, storage: Storage, slots: Tensor) -> np.ndarray:
        """Return how many other rows have the choices of those in `slots` ``(n,)``."""
        return np.array([self._counts[key] - 1 for key in self.keys(storage, slots).tolist()], np.int64)


class Separated:
    """A storage as a graph of neighbors sees it: rows of other choices lie far away."""

    def __init__(self, storage: Storage, choices: Choices):
        self._storage, self._choices = storage, choices
        self.written, self.capacity = storage.written, storage.capacity

    def features(self, slots: Tensor) -> Tensor:
        """Return z = [s; a] and the code of the choices of `slots` ``(n,)``: float32 ``(n, d + CODE)``."""
        keys = self._choices.keys(self._storage, slots)
        bits = keys[:, None] >> np.arange(64 - CODE, 64, dtype=np.uint64) & np.uint64(1)
        codes = (bits.astype(np.float32) - np.float32(0.5)) * np.float32(APART)
        return torch.cat([self._storage.features(slots), torch.from_numpy(codes)], dim=1)


def _mixed(key: np.ndarray) -> np.ndarray:
    key = (key ^ (key >> np.uint64(30))) * _MIX[0]
    key = (key ^ (key >> np.uint64(27))) * _MIX[1]
    return key ^ (key >> np.uint64(31))
