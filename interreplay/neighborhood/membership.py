"""The members of each cluster, with random access."""

from __future__ import annotations

from typing import Any

import numpy as np

from interreplay.storage.state_copies import attributes

SPARE = 8  # a cluster of m members gets room for m·(1 + 1/8) + 8
MANY = 1024  # number of rows from which rebuilding all lists is faster
ARRAYS = ("size", "room", "start", "pool")


class ClusterMembership:
    """One list of slots per cluster, next to each other in one array.

    Each list has some room to grow; a list that outgrows it moves to the end. Adding or removing a row and reading any
    member take constant time. `build` restores the order of clusters and slots.
    """

    def __init__(self, capacity: int):
        self.cluster = np.full(capacity, -1, np.int32)  # cluster of each slot, −1 for none
        self.place = np.zeros(capacity, np.int32)  # place of each slot in its list
        self.build(1)

    def build(self, count: int) -> None:
        """Build the lists of `count` clusters from `cluster`, in the order of the slots."""
        slots = np.flatnonzero(self.cluster >= 0)
        clusters = self.cluster[slots]
        order = np.argsort(clusters.astype(np.uint16) if count <= 1 << 16 else clusters, kind="stable")
        slots = slots[order]
        clusters = clusters[order]
        self.size = np.bincount(clusters, minlength=count)
        self.room = self.size + self.size // 8 + SPARE
        ends = np.cumsum(self.room)
        self.start = ends - self.room
        self.end = int(ends[-1])
        self.pool = np.zeros(self.end + self.end // 8, np.int32)
        rank = np.arange(len(slots)) - np.repeat(np.cumsum(self.size) - self.size, self.size)
        self.pool[self.start[clusters] + rank] = slots
        self.place[slots] = rank

    def insert(self, slots: np.ndarray, clusters: np.ndarray) -> None:
        """Add the rows in `slots` ``(n,)`` to `clusters` ``(n,)``."""
        if len(slots) > MANY:
            self.cluster[slots] = clusters
            self.build(len(self.size))
            return
        for slot, cluster in zip(slots.tolist(), clusters.tolist(), strict=True):
            size = int(self.size[cluster])
            if size == self.room[cluster]:
                self._move_to_end(cluster, size)
            self.pool[self.start[cluster] + size] = slot
            self.cluster[slot] = cluster
            self.place[slot] = size
            self.size[cluster] = size + 1

    def _move_to_end(self, cluster: int, size: int) -> None:
        room = 2 * size + SPARE
        start = int(self.start[cluster])
        if self.end + room > len(self.pool):
            self.pool = np.concatenate([self.pool, np.zeros(room + self.end // 8, np.int32)])
        self.pool[self.end : self.end + size] = self.pool[start : start + size]
        self.start[cluster] = self.end
        self.room[cluster] = room
        self.end += room

    def remove(self, slots: np.ndarray) -> None:
        """Remove the rows in `slots` ``(n,)`` from their clusters."""
        if len(slots) > MANY:
            self.cluster[slots] = -1
            self.build(len(self.size))
            return
        for slot in slots.tolist():
            cluster = self.cluster[slot]
            start = self.start[cluster]
            last = self.size[cluster] - 1
            place = self.place[slot]
            moved = self.pool[start + last]  # takes the place of the removed row
            self.pool[start + place] = moved
            self.place[moved] = place
            self.size[cluster] = last
            self.cluster[slot] = -1

    def get_members(self, clusters: np.ndarray) -> np.ndarray:
        """Return the slots of all members of `clusters` ``(c,)``, one cluster after another, int64."""
        size = self.size[clusters]
        rank = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        return self.pool[np.repeat(self.start[clusters], size) + rank].astype(np.int64)

    def draw_others(self, slots: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw another member of the cluster of each of `slots` ``(n,)``, int64; −1 if there is none."""
        clusters = self.cluster.take(slots)
        rest = self.size.take(clusters) - 1
        chosen = (rng.random(len(slots)) * rest).astype(np.int64)
        chosen += chosen >= self.place.take(slots)
        chosen[rest == 0] = 0
        found = self.pool.take(self.start.take(clusters) + chosen).astype(np.int64)
        found[rest == 0] = -1
        return found

    def state_dict(self) -> dict[str, Any]:
        """Return the state, with the slots in use only, which are the first ones; arrays share memory."""
        used = int(self.size.sum())
        state: dict[str, Any] = attributes(self, ARRAYS)
        return state | {"end": self.end, "cluster": self.cluster[:used], "place": self.place[:used]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state; no row may be in a cluster yet."""
        for name in ARRAYS:
            setattr(self, name, np.array(state[name]))
        for name in ("cluster", "place"):
            getattr(self, name)[: len(state[name])] = np.asarray(state[name])
        self.end = int(state["end"])
