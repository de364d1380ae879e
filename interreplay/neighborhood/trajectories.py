"""Trajectories: the stored rows of each episode in order of time."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from interreplay.storage.ring import Storage

CHUNK = 1 << 16
LENGTH, GONE, ROOM, HEADER = range(4)
SMALLEST = 16


class Trajectories:
    """Follows a storage and finds the rows before and after a row in its episode.

    Each episode has a block of numbers in one array: its number of rows, how many of them (the first ones) were
    overwritten, the room of the block, and the slots of its rows. Each slot records the block of its row and the row's
    place in it. A full block moves to one with twice the room, or to its own beginning if most of its rows are gone; an
    empty block is reused. Blocks are rebuilt from the storage and are not part of a state: new trajectories that follow
    the same storage return the same rows.
    """

    def __init__(self) -> None:
        self.written = 0
        self._clear(0)

    def _clear(self, capacity: int) -> None:
        self.blocks = np.zeros(0, np.int32)
        self.used = 0
        self.free: dict[int, list[int]] = {}  # empty blocks by their room
        self.running: dict[int, int] = {}  # block of each episode that may continue, in the order of their newest rows
        self.start = np.full(capacity, -1)  # block of each slot's row
        self.place = np.zeros(capacity, np.int32)

    def follow(self, storage: Storage) -> None:
        """Process the rows written since the last call."""
        if self.written == storage.written:
            return
        if not len(self.start) or storage.written - self.written >= storage.capacity:
            self._clear(storage.capacity)  # all rows seen before are gone
        for first in range(max(self.written, storage.written - len(storage)), storage.written, CHUNK):
            self._append(storage, np.arange(first, min(first + CHUNK, storage.written)) % storage.capacity)
        self.written = storage.written

    def _append(self, storage: Storage, slots: np.ndarray) -> None:
        rows = storage.records.take(torch.from_numpy(slots), ("episode", "terminated", "truncated"))
        done = (rows["terminated"] | rows["truncated"]).tolist()
        episodes = rows["episode"].tolist()
        truncated = storage.records.array("truncated")
        for episode in self.running.keys() & set(episodes):
            start = self.running[episode]
            newest = self.blocks[start + HEADER + self.blocks[start + LENGTH] - 1]
            if truncated[newest]:  # by `Storage.truncate_episodes`, since the row was added
                del self.running[episode]
        for slot, episode, ended in zip(slots.tolist(), episodes, done, strict=True):
            if self.start[slot] >= 0:
                self._drop_first(int(self.start[slot]))
            start = self.running.pop(episode, -1)
            if start < 0:
                start = self._new_block(SMALLEST)
            elif self.blocks[start + LENGTH] == self.blocks[start + ROOM]:
                start = self._make_room(start)
            length = int(self.blocks[start + LENGTH])
            self.blocks[start + HEADER + length] = slot
            self.blocks[start + LENGTH] = length + 1
            self.start[slot] = start
            self.place[slot] = length
            if not ended:
                self.running[episode] = start

    def _drop_first(self, start: int) -> None:
        """Record that the first remaining row of a block was overwritten."""
        self.blocks[start + GONE] += 1
        if self.blocks[start + GONE] < self.blocks[start + LENGTH]:
            return
        self.free.setdefault(int(self.blocks[start + ROOM]), []).append(start)
        if self.running and next(iter(self.running.values())) == start:  # it held the oldest row, so it is the first
            del self.running[next(iter(self.running))]

    def _make_room(self, start: int) -> int:
        """Move the remaining rows of a full block; return their new block."""
        length, gone, room = self.blocks[start : start + HEADER].tolist()
        slots = self.blocks[start + HEADER + gone : start + HEADER + length].copy()
        target = start
        if 2 * gone < length:
            target = self._new_block(2 * room)
            self.free.setdefault(room, []).append(start)
        self.blocks[target + LENGTH] = len(slots)
        self.blocks[target + GONE] = 0
        self.blocks[target + HEADER : target + HEADER + len(slots)] = slots
        self.start[slots] = target
        self.place[slots] -= gone
        return target

    def _new_block(self, room: int) -> int:
        if self.free.get(room):
            start = self.free[room].pop()
        else:
            start = self.used
            self.used += HEADER + room
            if self.used > len(self.blocks):
                self.blocks = np.concatenate([self.blocks, np.zeros(max(self.used, 1 << 12), np.int32)])
        self.blocks[start : start + HEADER] = 0, 0, room
        return start

    def rows(self, slots: Tensor, draws: np.ndarray, past: bool) -> np.ndarray:
        """Return slots ``(n,)`` of rows of the same episodes as the rows in `slots` ``(n,)``.

        Args:
            slots: Slots of stored rows.
            draws: Positions ``(n,)`` between the first candidate (0) and the newest row (below 1). Uniform draws give
                each candidate the same probability.
            past: Whether candidates begin at the oldest stored row of the episode instead of the row itself.
        """
        index = slots.numpy()
        start = self.start.take(index)
        length = self.blocks.take(start + LENGTH)
        first = self.blocks.take(start + GONE) if past else self.place.take(index)
        start += HEADER + first + (draws * (length - first)).astype(np.int64)
        return self.blocks.take(start).astype(np.int64)
