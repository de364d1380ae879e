"""The graph of nearest neighbours of everything stored, kept up to date while rows come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from interreplay.neighborhood.cells import Cells
from interreplay.neighborhood.scale import Scale, drift
from interreplay.neighborhood.search import Search
from interreplay.neighborhood.table import EMPTY, NeighborTable, by_group, pack, squared_of

if TYPE_CHECKING:
    from interreplay.storage import Storage

RANK_DRIFT = 0.01  # |ln std ratio| from which on distances are taken anew: .01 costs about .01 of recall
SEARCH_DRIFT = 0.15  # and from which on the candidates themselves are: 10 of 32 survive .2 with recall .999
STALE = 0.3  # share of the rows stored that may be newer than the last search for a row
SWEEP = 2  # rows looked at for each row added, whether they are stale
BLOCK = 2048  # queries per search
CHUNK = 1 << 15


class NeighborGraph:
    """For each row stored, candidates that contain its k nearest.

    A new row waits until one in 2048 rows is waiting (or until it is asked for); then one search finds its
    neighbours and the rows in whose lists it belongs. The same search refreshes older rows in turn. When the
    scale drifts, lists are ranked anew as they are asked for, and searched for anew when it drifts far.

    Args:
        capacity: Number of slots.
        dims: Number of features.
        k: Neighbours that must be right.
        width: Candidates kept per row.
    """

    def __init__(self, capacity: int, dims: int, k: int, width: int):
        self.k, self.width = k, width
        self.table = NeighborTable(capacity, width)
        self.cells = Cells(capacity, dims)
        self.scale = Scale(dims)
        self.queried = np.zeros(capacity, np.int32)  # epoch of the last search for a row, 0: never
        self.ranked = np.zeros(capacity, np.int32)  # epoch of its distances
        self.seen = np.zeros(capacity, np.int64)  # rows written at its last search
        self.stds = np.zeros((1, dims))  # of each epoch
        self.valid = np.zeros(1, bool)  # which epochs' searches still serve
        self.pending: list[int] = []
        self.sweep = self.built_at = self.built_size = 0

    @property
    def epoch(self) -> int:
        return len(self.stds) - 1

    # -- rows come and go -------------------------------------------------------------------------

    def add(self, storage: Storage, slots: np.ndarray) -> None:
        """Take in the newest rows of `storage`, in `slots` ``(n,)``; what lay there before is gone."""
        self.table.written = storage.written
        over = slots[self.cells.place[slots] >= 0]
        if len(over):
            self.scale.add(self.scale.invert(self.cells.rows(over)), -1)
            for slot in over.tolist():
                self.cells.remove(slot)
        features = storage.features(torch.from_numpy(slots)).numpy()
        self.scale.add(features)
        self.queried[slots] = 0
        self.table.clear(slots)
        if drift(self.scale.std, self.scale.now()[1]) > RANK_DRIFT or self.epoch == 0:
            self._rescale(storage, features)
        for slot, vector in zip(slots.tolist(), self.scale.apply(features), strict=True):
            self.cells.insert(slot, vector)
        if storage.written - self.built_at > max(self.built_size // 2, 256):
            self._build()
        self.pending += slots.tolist()
        if len(self.pending) * 2048 >= self.table.count or len(self.pending) >= 512:
            self._flush()

    def _rescale(self, storage: Storage, fresh: np.ndarray) -> None:
        """Begin an epoch in the scale of now; `fresh` are the features of rows not in the cells yet."""
        centers = self.scale.invert(self.cells.centers)
        self.scale.freeze()
        self.cells.move_centers(self.scale.apply(centers))
        self.scale.restart()
        self.scale.add(fresh)
        stored = self.cells.stored
        for start in range(0, len(stored), CHUNK):
            part = stored[start : start + CHUNK]
            features = storage.features(torch.from_numpy(part)).numpy()
            self.scale.add(features)
            self.cells.replace(part, self.scale.apply(features))
        self.stds = np.concatenate([self.stds, self.scale.std[None]])
        self._judge_epochs()

    def _judge_epochs(self) -> None:
        self.valid = np.array([drift(std, self.scale.std) < SEARCH_DRIFT for std in self.stds])
        self.valid[0] = False

    def _build(self) -> None:
        """Partition the rows anew; lists and reaches stay."""
        stored = self.cells.stored
        reach = self.cells.reach[self.cells.place[stored]]
        self.cells.build(stored, self.cells.rows(stored))
        self.cells.reach[self.cells.place[stored]] = reach
        self.built_at, self.built_size = self.table.written, len(stored)

    def _flush(self) -> None:
        """Search for the rows that wait, and for stale ones among the next in turn."""
        waiting = np.array(self.pending, np.int64)
        turn = (self.sweep + np.arange(min(SWEEP * len(waiting), self.table.count))) % self.table.count
        self.sweep = int(turn[-1] + 1) % self.table.count
        stale = self.table.written - self.seen[turn] > STALE * self.table.count
        stale |= ~self.valid[self.queried[turn]]
        wanted = np.concatenate([waiting[self.queried[waiting] == 0], turn[stale & (self.queried[turn] > 0)]])
        for start in range(0, len(wanted), BLOCK):
            self.search(wanted[start : start + BLOCK])
        self.pending = []

    # -- lists ------------------------------------------------------------------------------------

    def candidates(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Candidates of `slots` ``(n,)``, right as of now.

        Returns:
            Keys ``(n, width)``, nearest first, and the number of live ones up to and with each, int16 ``(n, width)``.
        """
        unfit = ~self.valid[self.queried[slots]]
        if unfit.any():
            self.search(np.unique(slots[unfit]))
        outdated = self.ranked[slots] != self.epoch
        if outdated.any():
            self.rank(np.unique(slots[outdated]))
        keys = self.table.keys.take(slots, axis=0)
        order = self.table.live(keys).cumsum(1, dtype=np.int16)
        short = order[:, -1] < min(self.k, self.table.count - 1)
        if short.any():
            self._complete(np.unique(slots[short]))
            keys = self.table.keys.take(slots, axis=0)
            order = self.table.live(keys).cumsum(1, dtype=np.int16)
        return keys, order

    def _complete(self, slots: np.ndarray) -> None:
        """Search further and further for rows with fewer than k candidates."""
        for probes in (self.cells.probes, len(self.cells.centers)):
            self.search(slots, probes)
            enough = self.table.live(self.table.keys[slots]).sum(1) >= min(self.k, self.table.count - 1)
            slots = slots[~enough]
            if not len(slots):
                return

    def search(self, slots: np.ndarray, probes: int | None = None) -> None:
        """Find the candidates of `slots` ``(q,)``, each once, and offer these rows to all who may want them."""
        self.rank(slots[(self.queried[slots] > 0) & (self.ranked[slots] != self.epoch)])
        search = Search(self.cells, slots, self.width, self._radius(slots), probes or self.cells.probes)
        query, places, squared = search.run()
        found = self.cells.slots[places].astype(np.int64)
        inside = squared <= search.radius[query]
        keys = pack(squared[inside], self.table.write_of(found[inside]))
        self._offer(slots[query[inside]], keys, 4 * self.width)
        kept = self.table.merge(slots, np.empty((len(slots), 0), np.uint64))
        full = kept[:, -1] != EMPTY
        self.cells.reach[self.cells.place[slots]] = np.where(full, squared_of(kept[:, -1]), search.radius)
        self.queried[slots] = self.ranked[slots] = self.epoch
        self.seen[slots] = self.table.written
        wanted = squared < self.cells.reach[places]
        targets = found[wanted]
        self.rank(np.unique(targets[self.ranked[targets] != self.epoch]))
        self._offer(targets, pack(squared[wanted], self.table.write_of(slots[query[wanted]])), 8)

    def _radius(self, slots: np.ndarray) -> np.ndarray:
        """Squared radius ``(q,)`` that should hold `width` rows; NaN where the list does not tell."""
        keys = self.table.keys[slots]
        number = self.table.live(keys).sum(1)
        keys[~self.table.live(keys)] = EMPTY
        keys.sort(axis=1)
        last = squared_of(keys[np.arange(len(slots)), np.maximum(number - 1, 0)])
        growth = (self.width / np.maximum(number, 1)) ** 0.25  # as in eight dimensions
        return np.where((number >= self.k) & self.valid[self.queried[slots]], last * growth, np.nan)

    def _offer(self, slots: np.ndarray, keys: np.ndarray, limit: int) -> None:
        """Put `keys` ``(m,)`` into the lists of `slots` ``(m,)`` where they are near enough."""
        groups, turns, lines = by_group(slots, keys, limit)
        ends = np.searchsorted(turns, np.arange(turns.max(initial=-1) + 2))
        for start, end in zip(ends[:-1], ends[1:], strict=True):
            kept = self.table.merge(groups[start:end], lines[start:end])
            places = self.cells.place[groups[start:end]]
            full = kept[:, -1] != EMPTY
            self.cells.reach[places[full]] = squared_of(kept[full, -1])

    def rank(self, slots: np.ndarray) -> None:
        """Take the distances of the candidates of `slots` ``(n,)``, each once, in the scale of now."""
        for start in range(0, len(slots), BLOCK):
            self._rank(slots[start : start + BLOCK])

    def _rank(self, slots: np.ndarray) -> None:
        keys = self.table.keys[slots]
        live = self.table.live(keys)
        row, column = np.nonzero(live)
        other = self.table.slots_of(keys[row, column])
        difference = self.cells.rows(other) - self.cells.rows(slots)[row]
        fresh = np.full_like(keys, EMPTY)
        fresh[row, column] = pack(np.einsum("ij,ij->i", difference, difference), keys[row, column])
        before = np.where(live, squared_of(keys), -1.0).max(1)
        after = np.where(live, squared_of(fresh), -1.0).max(1)
        fresh.sort(axis=1)
        self.table.keys[slots] = fresh
        self.ranked[slots] = self.epoch
        known = (before > 0) & (after > 0)
        self.cells.reach[self.cells.place[slots[known]]] *= after[known] / before[known]

    # -- state ------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything; large arrays share memory."""
        count = self.table.count
        state = {name: getattr(self, name)[:count] for name in ("queried", "ranked", "seen")}
        state |= {name: getattr(self, name).state_dict() for name in ("table", "cells", "scale")}
        state |= {name: getattr(self, name) for name in ("sweep", "built_at", "built_size")}
        return state | {"stds": self.stds, "pending": np.array(self.pending, np.int64)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in ("queried", "ranked", "seen"):
            getattr(self, name)[: len(state[name])] = np.asarray(state[name])
        for name in ("table", "cells", "scale"):
            getattr(self, name).load_state_dict(state[name])
        for name in ("sweep", "built_at", "built_size"):
            setattr(self, name, int(state[name]))
        self.stds = np.array(state["stds"], np.float64)
        self.pending = [int(slot) for slot in state["pending"]]
        self._judge_epochs()
