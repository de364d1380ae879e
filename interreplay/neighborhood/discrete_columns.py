"""Discrete columns: integer parts of observations and actions. Neighbors have equal discrete values.

One neighbor graph contains the rows of all discrete values. In the graph, a code is appended to a row's features: a
corner of a cube. Equal values have equal codes; different values usually have different codes, which are further apart
than neighbors. Neighbors are compared by the values themselves; codes only make it likely that enough are found.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch
from torch import Tensor

from interreplay.storage.columns import discrete_columns
from interreplay.storage.ring import Storage

CODE = 8
"""Length of a code."""
APART = 8.0
"""Minimum distance between two codes, in standard deviations of a feature."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def hash_rows(values: np.ndarray) -> np.ndarray:
    """Return a hash of each row of whole numbers `values` ``(n, c)``, uint64 ``(n,)`` (splitmix64)."""
    key = np.zeros(len(values), np.uint64)
    for column in values.T:
        key ^= column.astype(np.int64).astype(np.uint64) + GOLDEN
        key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        key ^= key >> np.uint64(31)
    return key


class DiscreteColumns:
    """The discrete values of the stored rows.

    Args:
        count: Whether to count the rows with each combination of values.

    Attributes:
        names: The discrete columns of the observation and the actions.
    """

    def __init__(self, storage: Storage, count: bool = True):
        self.names = discrete_columns(storage.columns)
        self._counts: Counter[int] = Counter()
        if self.names and count:
            stored = np.arange(storage.written - len(storage), storage.written) % storage.capacity
            self.add(storage, torch.from_numpy(stored))

    def read(self, storage: Storage, slots: Tensor) -> Tensor:
        """Return the values of the rows in `slots` ``(n,)``, int64 ``(n, c)``."""
        rows = storage.records.take(slots, self.names)  # PyTorch cannot select elements of uint16 or uint32
        return torch.cat([rows[name].reshape(len(slots), -1).long() for name in self.names], dim=1)

    def find_same(self, storage: Storage, slots: Tensor, others: Tensor) -> Tensor:
        """Return which rows in `others` ``(n, m)`` have the values of the rows in `slots` ``(n,)``."""
        own = self.read(storage, slots).unsqueeze(1)
        return (self.read(storage, others.reshape(-1)).view(*others.shape, -1) == own).all(dim=2)

    def keys(self, storage: Storage, slots: Tensor) -> np.ndarray:
        """Return a hash of the values of each row, uint64 ``(n,)``."""
        return hash_rows(self.read(storage, slots).numpy())

    def add(self, storage: Storage, slots: Tensor) -> None:
        """Count rows that were just stored."""
        self._counts.update(self.keys(storage, slots).tolist())

    def remove(self, storage: Storage, slots: Tensor) -> None:
        """Stop counting rows that are about to be overwritten."""
        removed = self.keys(storage, slots).tolist()
        self._counts.subtract(removed)
        for key in removed:
            if not self._counts[key]:
                del self._counts[key]

    def count_others(self, storage: Storage, slots: Tensor) -> np.ndarray:
        """Return the number of other rows with the values of each row in `slots` ``(n,)``."""
        return np.array([self._counts[key] - 1 for key in self.keys(storage, slots).tolist()], np.int64)


class CodedStorage:
    """View of a storage for the neighbor graph: codes separate rows with different discrete values."""

    def __init__(self, storage: Storage, discrete: DiscreteColumns):
        self._storage = storage
        self._discrete = discrete
        self.written = storage.written
        self.capacity = storage.capacity

    def features(self, slots: Tensor) -> Tensor:
        """Return z = [s; a] and the code of the rows in `slots` ``(n,)``, float32 ``(n, d + CODE)``."""
        keys = self._discrete.keys(self._storage, slots)
        bits = keys[:, None] >> np.arange(64 - CODE, 64, dtype=np.uint64) & np.uint64(1)
        codes = (bits.astype(np.float32) - np.float32(0.5)) * np.float32(APART)
        return torch.cat([self._storage.features(slots), torch.from_numpy(codes)], dim=1)
