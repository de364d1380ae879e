"""Trajectories: the stored rows of each episode, in order of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage

CHUNK = 1 << 16
LENGTH, GONE, ROOM, HEADER = range(4)
SMALLEST = 16


class Trajectories:
    """Follows a storage: which rows came before and after a row in its episode.

    Each episode has a block of numbers in one array: how many rows it has, how many of these were overwritten (the
    first ones), how many there is room for, and then the slots of its rows. Each slot knows the block of its row and
    the row's place in it. The rows of a full block move to one of twice the room, or to its beginning where most of it
    is gone; one that is all gone is used again. All of this follows from what is stored, so it is no part of a state:
    new trajectories that follow the same storage answer the same.
    """

    def __init__(self) -> None:
        self.written = 0
        self._begin()

    def _begin(self) -> None:
        self.blocks = np.zeros(0, np.int32)
        self.used = 0
        self.free: dict[int, list[int]] = {}
        self.running: dict[int, int] = {}  # the block of each episode that may go on, oldest newest rows first
        self.start = np.zeros(0, np.int64)  # by slot; −1 before the first row
        self.place = np.zeros(0, np.int32)

    def follow(self, storage: Storage) -> None:
        """Take in the rows written since the last call."""
        if self.written == storage.written:
            return
        if not len(self.start) or storage.written - self.written >= storage.capacity:
            self._begin()  # none of the rows seen before is left
            self.start, self.place = np.full(storage.capacity, -1), np.zeros(storage.capacity, np.int32)
        for first in range(max(self.written, storage.written - len(storage)), storage.written, CHUNK):
            self._take_in(storage, np.arange(first, min(first + CHUNK, storage.written)) % storage.capacity)
        self.written = storage.written

    def _take_in(self, storage: Storage, slots: np.ndarray) -> None:
        rows = storage.records.take(torch.from_numpy(slots).to(storage.device), ("episode", "terminated", "truncated"))
        done, episodes = (rows["terminated"] | rows["truncated"]).tolist(), rows["episode"].tolist()
        for slot, episode, ended in zip(slots.tolist(), episodes, done, strict=True):
            if self.start[slot] >= 0:
                self._drop(int(self.start[slot]))
            start = self.running.pop(episode, -1)
            if start < 0:
                start = self._block(SMALLEST)
            elif self.blocks[start + LENGTH] == self.blocks[start + ROOM]:
                start = self._make_room(start)
            length = int(self.blocks[start + LENGTH])
            self.blocks[start + HEADER + length] = slot
            self.blocks[start + LENGTH] = length + 1
            self.start[slot], self.place[slot] = start, length
            if not ended:
                self.running[episode] = start

    def _drop(self, start: int) -> None:
        """Note that the first row that was left in a block was overwritten."""
        self.blocks[start + GONE] += 1
        if self.blocks[start + GONE] < self.blocks[start + LENGTH]:
            return
        self.free.setdefault(int(self.blocks[start + ROOM]), []).append(start)
        if self.running and next(iter(self.running.values())) == start:  # it held the oldest row, so it is the first
            del self.running[next(iter(self.running))]

    def _make_room(self, start: int) -> int:
        """Move the rows left in a full block; returns where to."""
        length, gone, room = self.blocks[start : start + HEADER].tolist()
        slots = self.blocks[start + HEADER + gone : start + HEADER + length].copy()
        target = start if 2 * gone >= length else self._block(2 * room)
        if target != start:
            self.free.setdefault(room, []).append(start)
        self.blocks[target + LENGTH], self.blocks[target + GONE] = len(slots), 0
        self.blocks[target + HEADER : target + HEADER + len(slots)] = slots
        self.start[slots] = target
        self.place[slots] -= gone
        return target

    def _block(self, room: int) -> int:
        """Return an empty block."""
        if self.free.get(room):
            start = self.free[room].pop()
        else:
            start, self.used = self.used, self.used + HEADER + room
            if self.used > len(self.blocks):
                self.blocks = np.concatenate([self.blocks, np.zeros(max(self.used, 1 << 12), np.int32)])
        self.blocks[start : start + HEADER] = 0, 0, room
        return start

    def rows(self, slots: Tensor, draws: np.ndarray, past: bool) -> np.ndarray:
        """Return slots ``(n,)`` of rows of the same episodes as those in `slots` ``(n,)``.

        Args:
            slots: Of stored rows.
            draws: ``(n,)``, share of the way to the newest row, 0 to below 1; with uniform ones each row that comes
                into question has the same probability.
            past: Begin at the oldest stored row of the episode; else at the row itself.
        """
        index = slots.numpy(force=True)
        start = self.start.take(index)
        length = self.blocks.take(start + LENGTH)
        first = self.blocks.take(start + GONE) if past else self.place.take(index)
        start += HEADER + first + (draws * (length - first)).astype(np.int64)
        return self.blocks.take(start).astype(np.int64)
