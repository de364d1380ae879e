"""The graph of nearest neighbors of everything stored, kept up to date while rows come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from interreplay.neighborhood.knn_index.inverted_file import cells_for
from interreplay.neighborhood.knn_index.neighbor_lists import BLOCK, CandidateLists
from interreplay.neighborhood.scale import drift

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage

RANK_DRIFT = 0.0075  # drift from which on distances are taken anew: .01 costs .012 of recall
STALE = 0.6  # share of the rows stored that may be newer than the last search for a row
MOVE = 0.02  # share by which rows that wait may add to the variance of a dimension
SWEEP = 3  # rows looked at for each row added, whether they are stale
REFRESH = 1.5  # and of these searched for again at most; what a full ring needs: each row once in .67 turns
COUNTERS = ("sweep", "tidied", "built_at", "built_size", "built_epoch")
WAIT = 2048  # one in so many rows may wait to be searched for
WAIT_EXACT = 256  # and where there is one cell
TIDY = 8  # rows ranked anew for each row added, where their distances are of an earlier scale
CHUNK = 1 << 15


class NeighborGraph(CandidateLists):
    """Lists of neighbors that follow the storage.

    A new row waits until one in 256 rows is waiting, or until it is asked for; then all that wait go into the cells,
    and one search finds their neighbors and the rows in whose lists they belong. Rows that move the scale do not wait.
    In a full ring stale lists are searched for again in turn. A scale nearby only changes the vectors in the cells.

    With more than one cell rows go into these at once, and one in 2048 may wait to be searched for. Cells are made
    anew after half as many rows again, or in a scale far away, and stale lists are searched for from the beginning.
    """

    def __init__(self, capacity: int, dims: int, k: int, width: int, fixed: int = 0):
        super().__init__(capacity, dims, k, width, fixed)
        self.pending: list[int] = []  # rows not searched for; the last ones may be in no cell yet
        self.moved = np.zeros(dims)  # squared deviations of the latter in units of the scale's, summed
        self._center, self._tolerance = np.zeros(dims), np.zeros(dims)
        self.sweep = self.built_at = self.built_size = self.built_epoch = 0

    # -- rows come and go -------------------------------------------------------------------------

    def leave(self, storage: Storage, slots: np.ndarray) -> None:
        """Take out the rows in `slots` ``(n,)``, which are about to be overwritten."""
        if (self.cells.place[slots] < 0).any():
            self._take_in(storage)
        self.scale.remove(storage.features(torch.from_numpy(slots)).numpy())
        for slot in slots.tolist():
            self.cells.remove(slot)

    def add(self, storage: Storage, slots: np.ndarray) -> None:
        """Take note of the newest rows of `storage`, in `slots` ``(n,)``, which nothing is known of any more.

        Raises:
            RuntimeError: When rows lay there that have not left.
        """
        if self.cells.place[slots[0]] >= 0:
            raise RuntimeError("rows were overwritten that had not left; call evict before each add")
        self.table.written = storage.written
        self.queried[slots], self.fit[slots] = 0, False
        self.pending += slots.tolist()
        wait = WAIT_EXACT if self.cells.whole else WAIT
        if not self.cells.whole or self._moved(storage.features(torch.from_numpy(slots)).numpy()):
            self._take_in(storage)
        if len(self.pending) * wait >= self.table.count or len(self.pending) >= 512:
            self._flush(storage)

    def _moved(self, features: np.ndarray) -> bool:
        """Return whether rows that wait could have moved the scale, `features` ``(n, d)`` of the newest among them."""
        deviation = features - self._center
        deviation *= self._tolerance
        deviation *= deviation
        self.moved += deviation[0] if len(deviation) == 1 else deviation.sum(0)
        return bool(self.moved.max() > MOVE * self.table.count)

    def _measure_moves(self) -> None:
        """Measure how far rows move the scale; any move of a constant dimension is far."""
        self._center, std = self.scale.mean.copy(), self.scale.std
        self._tolerance = 1.0 / np.maximum(std, np.maximum(1e-9 * np.abs(self._center), 1e-30))
        self._tolerance[self.scale.free.stop :] = 0.0

    def settle(self, storage: Storage, slots: np.ndarray) -> None:
        """Make the lists of `slots` ``(n,)`` fit for use."""
        if self.fit.take(slots).all():
            return
        if self.pending and (self.queried.take(slots) == 0).any():
            if self.cells.whole:
                self._flush(storage)
            else:
                self._take_in(storage)
        self.mend(slots)

    def _take_in(self, storage: Storage) -> None:
        """Put the rows that wait outside into the cells."""
        slots = np.array(self.pending, np.int64)
        slots = slots[self.cells.place[slots] < 0]
        if not len(slots):
            return
        self.table.clear(slots)
        features = storage.features(torch.from_numpy(slots)).numpy()
        if self.epoch == 0:
            self.scale.center(features[0])
        self.scale.add(features)
        free = self.scale.free
        if self.epoch == 0 or drift(self.scale.std[free], self.scale.now()[1][free]) > RANK_DRIFT:
            self._rescale(storage, features)
        self.cells.extend(slots, self.scale.apply(features))
        self.moved[:] = 0.0
        self._build_when_due()

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
        self.begin_epoch()
        self._measure_moves()

    def _build_when_due(self) -> None:
        """Partition the rows anew after half as many again, or in a scale far away; lists and reaches stay."""
        if self.cells.whole and cells_for(self.table.count) == 1:
            return
        if self.table.written - self.built_at <= max(self.built_size // 2, 256) and self.valid[self.built_epoch]:
            return
        stored = self.cells.stored
        reach = self.cells.reach[self.cells.place[stored]]
        if self.cells.whole:
            self.seen[stored] = self.table.written  # their lists are exact
        self.cells.build(stored, self.cells.rows(stored))
        self.cells.reach[self.cells.place[stored]] = reach
        self.built_at, self.built_size, self.built_epoch = self.table.written, len(stored), self.epoch

    def _flush(self, storage: Storage) -> None:
        """Search for the rows that wait, and for stale ones among the next in turn."""
        self._take_in(storage)
        waiting = np.array(self.pending, np.int64)
        wanted = waiting[self.queried[waiting] == 0]
        if not self.cells.whole or self.table.written > self.table.capacity:
            wanted = np.concatenate([wanted, self._stale(len(waiting))])
            self.tidy(TIDY * len(waiting))
        for start in range(0, len(wanted), BLOCK):
            self.search(wanted[start : start + BLOCK])
        self.pending = []

    def _stale(self, added: int) -> np.ndarray:
        """Return the stale rows next in turn, some for each of the rows `added`."""
        count = self.table.count
        turn = (self.sweep + np.arange(min(SWEEP * added, count))) % count
        stale = self.table.written - self.seen[turn] > STALE * count
        stale |= ~self.valid[self.queried[turn]]
        chosen = np.flatnonzero(stale & (self.queried[turn] > 0))[: int(np.ceil(REFRESH * added))]
        done = len(turn) if len(chosen) < REFRESH * added else int(chosen[-1]) + 1
        self.sweep = int(self.sweep + done) % count
        return turn[chosen]

    # -- state ------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return everything; large arrays share memory."""
        count = self.table.count
        state = {name: getattr(self, name)[:count] for name in ("queried", "ranked", "seen")}
        state |= {name: getattr(self, name).state_dict() for name in ("table", "cells", "scale")}
        state |= {name: getattr(self, name) for name in COUNTERS}
        return state | {"stds": self.stds, "pending": np.array(self.pending, np.int64), "moved": self.moved}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in ("queried", "ranked", "seen"):
            getattr(self, name)[: len(state[name])] = np.asarray(state[name])
        for name in ("table", "cells", "scale"):
            getattr(self, name).load_state_dict(state[name])
        for name in COUNTERS:
            setattr(self, name, int(state[name]))
        self.stds = np.array(state["stds"], np.float64)
        self.pending = [int(slot) for slot in state["pending"]]
        self.moved = np.array(state.get("moved", self.moved), np.float64)
        self._measure_moves()
        self.judge()
