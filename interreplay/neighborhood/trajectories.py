"""Trajectories: the stored rows of each episode, in order of time."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from interreplay.storage import Storage

CHUNK = 1 << 16


class Trajectories:
    """Follows a storage: which rows came before and after a row in its episode.

    A trajectory is the list of write numbers of one episode. Every slot knows the trajectory of its row and the row's
    place in it; a trajectory that no slot knows any more is forgotten with that. All of this follows from what is
    stored, so it is no part of a state: a new one that follows the same storage answers the same.
    """

    def __init__(self) -> None:
        self.written = 0
        self.of: list[array[int]] = []
        self.place = np.empty(0, np.int64)
        self.running: dict[int, array[int]] = {}

    def follow(self, storage: Storage) -> None:
        """Take in the rows written since the last call."""
        if self.written == storage.written:
            return
        oldest = storage.written - len(storage)
        if not self.of:
            self.of, self.place = [array("q")] * storage.capacity, np.zeros(storage.capacity, np.int64)
        for start in range(max(self.written, oldest), storage.written, CHUNK):
            self._take_in(storage, np.arange(start, min(start + CHUNK, storage.written)), oldest)
        self.written = storage.written
        while self.running and next(iter(self.running.values()))[-1] < oldest:
            del self.running[next(iter(self.running))]

    def _take_in(self, storage: Storage, writes: np.ndarray, oldest: int) -> None:
        slots = writes % storage.capacity
        rows = storage.records.take(torch.from_numpy(slots).to(storage.device), ("episode", "terminated", "truncated"))
        done, episodes = (rows["terminated"] | rows["truncated"]).tolist(), rows["episode"].tolist()
        for write, slot, episode, ended in zip(writes.tolist(), slots.tolist(), episodes, done, strict=True):
            # Out and in again: `running` stays in the order of the newest rows, so stale ones are at its front.
            path = self.running.pop(episode, None) or array("q")
            if len(path) > 2 * storage.capacity:
                self._shorten(path, oldest)
            self.of[slot], self.place[slot] = path, len(path)
            path.append(write)
            if not ended:
                self.running[episode] = path

    def _shorten(self, path: array[int], oldest: int) -> None:
        """Forget the rows of an endless episode that were overwritten."""
        gone = bisect_left(path, oldest)
        del path[:gone]
        self.place[np.array(path) % len(self.of)] -= gone

    def later(self, slots: Tensor, draws: np.ndarray) -> np.ndarray:
        """Write numbers ``(n,)`` of rows at or after those in `slots` ``(n,)``, `draws` ``(n,)`` of the rest away.

        With draws uniform over [0, 1) each such row has the same probability.
        """
        index, of = slots.numpy(force=True), self.of
        rows = zip(index.tolist(), self.place[index].tolist(), draws.tolist(), strict=True)
        return np.array(
            [path[here + int(share * (len(path) - here))] for slot, here, share in rows for path in (of[slot],)]
        )

    def newest(self, slots: Tensor) -> np.ndarray:
        """Write numbers ``(n,)`` of the newest stored rows of the episodes of those in `slots` ``(n,)``."""
        return np.array([self.of[slot][-1] for slot in slots.tolist()])

    def anywhere(self, slots: Tensor, draws: np.ndarray, oldest: int) -> np.ndarray:
        """Write numbers ``(n,)`` of rows of the same episodes, at `draws` ``(n,)`` of those from `oldest` on."""
        found = []
        for slot, share in zip(slots.tolist(), draws.tolist(), strict=True):
            path = self.of[slot]
            first = bisect_left(path, oldest)
            found.append(path[first + int(share * (len(path) - first))])
        return np.array(found)
