"""A table of the nearest candidates of every slot."""

from __future__ import annotations

from typing import Any

import numpy as np

EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
LOW = np.uint64(0xFFFFFFFF)
SHIFT = np.uint64(32)


def pack(squared: np.ndarray, writes: np.ndarray) -> np.ndarray:
    """Return keys of candidates, uint64: the bits of the squared distance (float32), then the write number modulo 2³².

    Non-negative floats sort as their bits do, so keys sort by distance and one sort moves both.
    """
    bits = squared.astype(np.float32).view(np.uint32).astype(np.uint64)
    return (bits << SHIFT) | (writes.astype(np.uint64) & LOW)


def unpack_distances(keys: np.ndarray) -> np.ndarray:
    """Return squared distances, float32, of `keys`; NaN for empty ones."""
    return (keys >> SHIFT).astype(np.uint32).view(np.float32)


class NeighborTable:
    """Up to `width` candidates per slot, nearest first, identified by their write numbers.

    A write number shows whether the row still exists, so that overwriting a row changes nothing here. The table does
    not compute distances.
    """

    def __init__(self, capacity: int, width: int):
        self.capacity = capacity
        self.width = width
        # Zeros instead of `np.empty`, because checkpoints include rows without candidates. Unused rows take no memory.
        self.keys = np.zeros((capacity, width), np.uint64)
        self.written = 0  # rows ever stored
        self._upper = np.triu(np.ones((width, width), np.float32))

    @property
    def count(self) -> int:
        return min(self.written, self.capacity)

    def unpack_writes(self, slots: np.ndarray) -> np.ndarray:
        """Return write numbers, int64, of the rows in `slots`."""
        newest = self.written - 1
        return newest - (newest - slots) % self.capacity

    def ages(self, keys: np.ndarray) -> np.ndarray:
        """Return how many rows were written after the candidates, uint32; at least `count` if overwritten or empty."""
        # Reads the lower half of each key in place. An empty key has the bits of write number 2³² − 1.
        writes = keys.view(np.uint32)[..., 0::2] if keys.flags.c_contiguous else (keys & LOW).astype(np.uint32)
        return np.uint32((self.written - 1) & 0xFFFFFFFF) - writes

    def live(self, keys: np.ndarray) -> np.ndarray:
        """Return which of `keys` ``(n, m)`` identify a stored row."""
        return self._live(self.ages(keys), keys)

    def _live(self, ages: np.ndarray, keys: np.ndarray) -> np.ndarray:
        live = ages < np.uint32(self.count)
        if self.written < 0xFFFFFFFF:  # empty keys are too old
            return live
        return live & (keys != EMPTY)

    def count_live(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ages of `keys` ``(n, width)``, and the number of live ones up to and including each, float32."""
        ages = self.ages(keys)
        # A product takes a third of the time of cumsum.
        return ages, self._live(ages, keys).astype(np.float32) @ self._upper

    def unpack_slots(self, keys: np.ndarray) -> np.ndarray:
        """Return slots, int64, of live `keys`."""
        if self.written <= self.capacity:
            return (keys & LOW).astype(np.int64)
        return self.find_slots(self.ages(keys))

    def find_slots(self, ages: np.ndarray) -> np.ndarray:
        """Return slots, int64, of the rows after which `ages` rows were written."""
        return (self.written - 1 - ages.astype(np.int64)) % self.capacity

    def pick(self, slots: np.ndarray, columns: np.ndarray | int) -> np.ndarray:
        """Return the keys ``(n,)`` in `columns` ``(n,)`` of the candidates of `slots` ``(n,)``."""
        return self.keys.reshape(-1).take(slots * self.width + columns)

    def clear(self, slots: np.ndarray) -> None:
        """Remove the candidates of `slots`."""
        self.keys[slots] = EMPTY

    def merge(self, slots: np.ndarray, offers: np.ndarray) -> np.ndarray:
        """Keep the nearest of the candidates of `slots` ``(n,)``, without repetition, and of `offers` ``(n, m)``.

        Returns:
            The candidates ``(n, width)``, live ones first, nearest first.
        """
        both = np.concatenate([self.keys.take(slots, axis=0), offers], axis=1)
        if self.written > self.capacity:
            both[~self.live(both)] = EMPTY
        both.sort(axis=1)
        writes = both.view(np.uint32)[:, 0::2]
        twice = writes[:, 1:] == writes[:, :-1]
        twice &= both[:, 1:] != EMPTY
        some = np.flatnonzero(twice.any(axis=1))
        if len(some):
            lines = both[some]
            lines[:, 1:][twice[some]] = EMPTY
            lines.sort(axis=1)
            both[some] = lines
        kept = both[:, : self.width]
        self.keys[slots] = kept
        return kept

    def state_dict(self) -> dict[str, Any]:
        return {"written": self.written, "keys": self.keys[: self.count]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.written = int(state["written"])
        self.keys[: self.count] = np.asarray(state["keys"])


def group_keys(groups: np.ndarray, keys: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return keys in one line per group, with another line for every further `limit` keys.

    Args:
        groups: Group of each key, int64 ``(m,)``.
        keys: Keys ``(m,)`` uint64.
        limit: Maximum number of columns of the result.

    Returns:
        Groups ``(lines,)``, turns ``(lines,)`` (0 for a group's first line, 1 for its second, and so on; ascending)
        and keys ``(lines, at most limit)``, padded with `EMPTY`.
    """
    order = np.argsort(groups, kind="stable")
    groups = groups.take(order)
    keys = keys.take(order)
    first = np.ones(len(groups), bool)
    np.not_equal(groups[1:], groups[:-1], out=first[1:])
    number = np.arange(len(groups))
    column = number - np.maximum.accumulate(np.where(first, number, 0))
    most = int(column.max(initial=-1)) + 1
    if most <= limit:
        lines = np.full((int(first.sum()), most), EMPTY)
        lines[np.cumsum(first) - 1, column] = keys
        return groups[first], np.zeros(len(lines), np.int64), lines
    turn, column = np.divmod(column, limit)
    starts = np.flatnonzero(column == 0)
    lines = np.full((len(starts), limit), EMPTY)
    lines[np.cumsum(column == 0) - 1, column] = keys
    again = np.argsort(turn[starts], kind="stable")
    return groups[starts][again], turn[starts][again], lines[again]
