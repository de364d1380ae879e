"""Which rows are in which cluster, with random access to the members of each."""

from __future__ import annotations

from typing import Any

import numpy as np

SPARE = 8  # a cluster of m members gets room for m·(1 + 1/8) + 8
MANY = 1024  # rows at once from which on it is quicker to put all lists in order


class ClusterMembership:
    """Lists of slots, one per cluster, side by side in one array.

    Each list has some room to grow; one that outgrows it moves to the end. A row is added or removed in constant time
    (the last of the list takes its place), and any member is one read away. `build` puts all lists in order again.

    Args:
        capacity: Number of slots.
    """

    def __init__(self, capacity: int):
        self.cluster = np.full(capacity, -1, np.int32)  # of each slot, −1 for none
        self.place = np.zeros(capacity, np.int32)  # of each slot in its list
        self.build(1)

    def build(self, count: int) -> None:
        """Make lists of `count` clusters from `cluster`, slots ascending."""
        slots = np.flatnonzero(self.cluster >= 0)
        clusters = self.cluster[slots]
        order = np.argsort(clusters.astype(np.uint16) if count <= 1 << 16 else clusters, kind="stable")
        slots, clusters = slots[order], clusters[order]
        self.size = np.bincount(clusters, minlength=count)
        self.room = self.size + self.size // 8 + SPARE
        ends = np.cumsum(self.room)
        self.start, self.end = ends - self.room, int(ends[-1])
        self.pool = np.zeros(self.end + self.end // 8, np.int32)
        rank = np.arange(len(slots)) - np.repeat(np.cumsum(self.size) - self.size, self.size)
        self.pool[self.start[clusters] + rank] = slots
        self.place[slots] = rank

    def insert(self, slots: np.ndarray, clusters: np.ndarray) -> None:
        """Put the rows in `slots` ``(n,)`` into `clusters` ``(n,)``."""
        if len(slots) > MANY:
            self.cluster[slots] = clusters
            self.build(len(self.size))
            return
        for slot, cluster in zip(slots.tolist(), clusters.tolist(), strict=True):
            size = int(self.size[cluster])
            if size == self.room[cluster]:
                self._move(cluster, size)
            self.pool[self.start[cluster] + size] = slot
            self.cluster[slot], self.place[slot], self.size[cluster] = cluster, size, size + 1

    def _move(self, cluster: int, size: int) -> None:
        room, start = 2 * size + SPARE, int(self.start[cluster])
        if self.end + room > len(self.pool):
            self.pool = np.concatenate([self.pool, np.zeros(room + self.end // 8, np.int32)])
        self.pool[self.end : self.end + size] = self.pool[start : start + size]
        self.start[cluster], self.room[cluster], self.end = self.end, room, self.end + room

    def remove(self, slots: np.ndarray) -> None:
        """Take the rows in `slots` ``(n,)`` out of their clusters."""
        if len(slots) > MANY:
            self.cluster[slots] = -1
            self.build(len(self.size))
            return
        for slot in slots.tolist():
            cluster = self.cluster[slot]
            start, last = self.start[cluster], self.size[cluster] - 1
            moved, at = self.pool[start + last], self.place[slot]
            self.pool[start + at], self.place[moved] = moved, at
            self.size[cluster], self.cluster[slot] = last, -1

    def of(self, clusters: np.ndarray) -> np.ndarray:
        """Return slots of all members of `clusters` ``(c,)``, one cluster after the other, int64."""
        size = self.size[clusters]
        rank = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        return self.pool[np.repeat(self.start[clusters], size) + rank].astype(np.int64)

    def others(self, slots: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return a random other member of the cluster of each of `slots` ``(n,)``, int64; −1 where there is none."""
        clusters = self.cluster.take(slots)
        rest = self.size.take(clusters) - 1
        chosen = (rng.random(len(slots)) * rest).astype(np.int64)
        chosen += chosen >= self.place.take(slots)
        chosen[rest == 0] = 0
        found = self.pool.take(self.start.take(clusters) + chosen).astype(np.int64)
        found[rest == 0] = -1
        return found

    def state_dict(self) -> dict[str, Any]:
        """Return everything, of slots only those with a row, which are the first ones; the arrays share memory."""
        used = int(self.size.sum())
        lists = {name: getattr(self, name) for name in ("size", "room", "start", "pool", "end")}
        return lists | {"cluster": self.cluster[:used], "place": self.place[:used]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state; no row is in a cluster so far."""
        for name in ("size", "room", "start", "pool"):
            setattr(self, name, np.array(state[name]))
        for name in ("cluster", "place"):
            getattr(self, name)[: len(state[name])] = np.asarray(state[name])
        self.end = int(state["end"])
