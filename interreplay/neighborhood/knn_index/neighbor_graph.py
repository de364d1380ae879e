"""The graph of nearest neighbors of all stored rows, updated as rows are added and overwritten."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from interreplay.neighborhood.knn_index.inverted_file import InvertedFile, choose_cells
from interreplay.neighborhood.knn_index.neighbor_lists import RANK_DRIFT, SEARCH_DRIFT
from interreplay.neighborhood.knn_index.neighbor_table import EMPTY, NeighborTable, group_keys, pack, unpack_distances
from interreplay.neighborhood.knn_index.searches import CellSearch, ExactSearch
from interreplay.storage.ring import Storage
from interreplay.storage.running_moments import RunningStandardizer, drift
from interreplay.storage.state_copies import attributes

STALE = 0.6  # share of the stored rows that may be newer than the last search for a row
MOVE = 0.02  # share by which pending rows may add to the variance of a dimension
SWEEP = 3  # rows that are checked for staleness per added row
REFRESH = 1.5  # stale rows that are searched again per added row; a full ring requires each row once in .67 turns
WAIT = 2048  # at most one in 2048 rows is pending
WAIT_EXACT = 256  # at most one in 256 rows is pending if there is one cell
TIDY = 8  # rows ranked again per added row if their distances are in an earlier scale
AHEAD = 1024  # rows ranked again in advance if a requested one was ranked in an earlier scale
SEARCHED = 2048  # rows searched at a time
RANKED = 256  # rows ranked at a time; their candidates stay in the cache
READ = 1 << 15  # rows read at a time
COUNTERS = ("sweep", "tidied", "built_at", "built_size", "built_epoch")


class NeighborGraph:
    """A list of candidates per stored row that contains its k nearest neighbors.

    A new row is pending until one in 256 rows is pending, or until it is requested. Then all pending rows enter the
    cells, and one search finds their neighbors and the lists that they enter. Rows that move the scale are not
    deferred. In a full ring, stale lists are searched again in turn.

    An *epoch* is a period in which distances are computed in one scale. In a new epoch, lists are ranked again when
    they are requested, and searched again if the scale has moved far.

    With more than one cell, rows enter the cells at once, and one in 2048 may be pending. The cells are rebuilt when
    the number of rows has grown by half, or when the scale has moved far.

    Args:
        k: Number of neighbors that must be correct.
        width: Number of candidates per row.
        fixed: Number of features, the last ones, that are not scaled.
    """

    def __init__(self, capacity: int, dims: int, k: int, width: int, fixed: int = 0):
        self.k = k
        self.width = width
        self.table = NeighborTable(capacity, width)
        self.cells = InvertedFile(capacity, dims)
        self.scale = RunningStandardizer(dims, fixed)
        self.queried = np.zeros(capacity, np.int32)  # epoch of the last search for a row, 0 before the first
        self.ranked = np.zeros(capacity, np.int32)  # epoch of its distances
        self.seen = np.zeros(capacity, np.int64)  # rows written at its last search
        self.fit = np.zeros(capacity, bool)  # whether both are valid in this epoch; small enough for the cache
        self.stds = np.zeros((1, dims))  # standard deviations of each epoch
        self.valid = np.zeros(1, bool)  # epochs with searches that are still valid
        self.pending: list[int] = []  # rows not searched yet; the last ones may not be in a cell yet
        self.moved = np.zeros(dims)  # sum of squared deviations of the latter, in units of the scale
        self._center = np.zeros(dims)
        self._tolerance = np.zeros(dims)
        self.tidied = 0  # next row that is ranked in advance
        self.sweep = 0  # next row that is checked for staleness
        self.built_at = 0  # rows written, rows stored and epoch at the last build of the cells
        self.built_size = 0
        self.built_epoch = 0

    @property
    def epoch(self) -> int:
        return len(self.stds) - 1

    # -- Rows are added and removed ----------------------------------------------------------------

    def remove(self, storage: Storage, slots: np.ndarray) -> None:
        """Remove the rows in `slots` ``(n,)``, which are about to be overwritten."""
        if (self.cells.place[slots] < 0).any():
            self._insert_pending(storage)
        self.scale.remove(storage.features(torch.from_numpy(slots)).numpy())
        for slot in slots.tolist():
            self.cells.remove(slot)
        if len(self.pending) + len(slots) > self.table.count:  # pending rows are the newest, removed ones the oldest
            removed = set(slots.tolist())
            self.pending = [slot for slot in self.pending if slot not in removed]

    def add(self, storage: Storage, slots: np.ndarray) -> None:
        """Add the newest rows of `storage`, in `slots` ``(n,)``."""
        self.table.written = storage.written
        self.queried[slots] = 0
        self.fit[slots] = False
        self.pending += slots.tolist()
        wait = WAIT_EXACT if self.cells.whole else WAIT
        if not self.cells.whole or self._moves_scale(storage.features(torch.from_numpy(slots)).numpy()):
            self._insert_pending(storage)
        if len(self.pending) * wait >= self.table.count or len(self.pending) >= 512:
            self._search_pending(storage)

    def _moves_scale(self, features: np.ndarray) -> bool:
        """Return whether pending rows may have moved the scale, given `features` ``(n, d)`` of the newest ones."""
        deviation = features - self._center
        deviation *= self._tolerance
        deviation *= deviation
        self.moved += deviation[0] if len(deviation) == 1 else deviation.sum(0)
        return bool(self.moved.max() > MOVE * self.table.count)

    def _set_tolerance(self) -> None:
        """Set the deviation that counts as a move of the scale: for constant dimensions, any deviation."""
        self._center = self.scale.mean.copy()
        self._tolerance = 1.0 / np.maximum(self.scale.std, np.maximum(1e-9 * np.abs(self._center), 1e-30))
        self._tolerance[self.scale.free.stop :] = 0.0

    def _insert_pending(self, storage: Storage) -> None:
        """Insert the pending rows that are not in a cell yet."""
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
        if self.epoch == 0 or drift(self.scale.std[free], self.scale.current()[1][free]) > RANK_DRIFT:
            self._begin_epoch(storage, features)
        self.cells.extend(slots, self.scale.apply(features))
        self.moved[:] = 0.0
        self._build_if_due()

    def _begin_epoch(self, storage: Storage, fresh: np.ndarray) -> None:
        """Use the current scale; `fresh` are the features of rows that are not in the cells yet."""
        centers = self.scale.invert(self.cells.centers)
        self.scale.freeze()
        self.cells.set_centers(self.scale.apply(centers))
        self.scale.restart()
        self.scale.add(fresh)
        stored = self.cells.stored
        for start in range(0, len(stored), READ):
            part = stored[start : start + READ]
            features = storage.features(torch.from_numpy(part)).numpy()
            self.scale.add(features)
            self.cells.replace(part, self.scale.apply(features))
        self.stds = np.concatenate([self.stds, self.scale.std[None]])
        self._validate()
        self._set_tolerance()

    def _validate(self) -> None:
        """Determine which searches are still valid and which lists can be used."""
        free = self.scale.free
        self.valid = drift(self.stds[:, free], self.scale.std[free]) < SEARCH_DRIFT
        self.valid[0] = False
        used = slice(0, self.table.count)
        self.fit[used] = self.valid[self.queried[used]] & (self.ranked[used] == self.epoch)

    def _build_if_due(self) -> None:
        """Rebuild the cells if the rows have grown by half, or the scale has moved far; lists and reaches stay."""
        if self.cells.whole and choose_cells(self.table.count) == 1:
            return
        if self.table.written - self.built_at <= max(self.built_size // 2, 256) and self.valid[self.built_epoch]:
            return
        stored = self.cells.stored
        reach = self.cells.reach[self.cells.place[stored]]
        if self.cells.whole:
            self.seen[stored] = self.table.written  # their lists are exact
        self.cells.build(stored, self.cells.rows(stored))
        self.cells.reach[self.cells.place[stored]] = reach
        self.built_at = self.table.written
        self.built_size = len(stored)
        self.built_epoch = self.epoch

    def _search_pending(self, storage: Storage) -> None:
        """Search the pending rows, and stale ones in turn."""
        self._insert_pending(storage)
        slots = np.array(self.pending, np.int64)
        slots = slots[self.queried[slots] == 0]
        if not self.cells.whole or self.table.written > self.table.capacity:
            slots = np.concatenate([slots, self._choose_stale(len(self.pending))])
            self._rank_outdated(TIDY * len(self.pending))
        for start in range(0, len(slots), SEARCHED):
            self.search(slots[start : start + SEARCHED])
        self.pending = []

    def _choose_stale(self, added: int) -> np.ndarray:
        """Return the next stale rows in turn, in proportion to the number of rows `added`."""
        count = self.table.count
        turn = (self.sweep + np.arange(min(SWEEP * added, count))) % count
        stale = self.table.written - self.seen[turn] > STALE * count
        stale |= ~self.valid[self.queried[turn]]
        chosen = np.flatnonzero(stale & (self.queried[turn] > 0))[: int(np.ceil(REFRESH * added))]
        checked = len(turn) if len(chosen) < REFRESH * added else int(chosen[-1]) + 1
        self.sweep = int(self.sweep + checked) % count
        return turn[chosen]

    # -- Candidates --------------------------------------------------------------------------------

    def settle(self, storage: Storage, slots: np.ndarray) -> None:
        """Bring the lists of `slots` ``(n,)`` up to date."""
        if self.fit.take(slots).all():
            return
        if self.pending and (self.queried.take(slots) == 0).any():
            if self.cells.whole:
                self._search_pending(storage)
            else:
                self._insert_pending(storage)
        if self.fit.take(slots).all():
            return
        slots = np.unique(slots)
        self.search(slots[~self.valid[self.queried[slots]]])
        earlier = slots[self.ranked[slots] != self.epoch]
        if len(earlier):
            self._rank(earlier)
            self._rank_outdated(AHEAD)

    def is_complete(self, slots: np.ndarray) -> bool:
        """Return whether the first k candidates of the settled `slots` ``(n,)`` are certain to be live.

        This is the case while nothing was overwritten and all lists are long enough.
        """
        if self.table.written > self.table.capacity:
            return False
        return not (self.table.pick(slots, self.k - 1) == EMPTY).any()

    def candidates(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the candidates of the settled `slots` ``(n,)``.

        Returns:
            Their ages ``(n, width)``, nearest first, and the number of live ones up to and including each, float32
            ``(n, width)``.
        """
        ages, order = self.table.count_live(self.table.keys.take(slots, axis=0))
        needed = min(self.k, self.table.count - 1)
        short = order[:, -1] < needed
        if not short.any():
            return ages, order
        missing = np.unique(slots[short])
        for probes in (self.cells.probes, len(self.cells.centers)):  # widen the search
            self.search(missing, probes)
            missing = missing[self.table.live(self.table.keys[missing]).sum(1) < needed]
            if self.cells.whole or not len(missing):
                break
        return self.table.count_live(self.table.keys.take(slots, axis=0))

    def search(self, slots: np.ndarray, probes: int | None = None) -> None:
        """Find the candidates of `slots` ``(q,)``, without repetition, and enter these rows into other lists."""
        if not len(slots):
            return
        self._rank(slots[(self.queried[slots] > 0) & (self.ranked[slots] != self.epoch)])
        search: CellSearch | ExactSearch
        if self.cells.whole:
            search = ExactSearch(self.cells, slots, self.width)
        else:
            search = CellSearch(
                self.cells, slots, self.width, known=self._radius(slots), probes=probes or self.cells.probes
            )
        query, places, squared = search.run()
        own = slots.take(query)
        found = self.cells.slots.take(places).astype(np.int64)
        inside = squared <= search.radius.take(query)
        own_targets = own[inside]
        own_keys = pack(squared[inside], self.table.unpack_writes(found[inside]))
        reach = self.cells.reach.take(places)
        self.cells.reach[search.places] = search.radius
        together = self.cells.whole and len(own_targets) <= (self.width + 1) * len(slots)  # faster in that case
        if not together:
            self._offer(own_targets, own_keys, 4 * self.width)
        if not self.cells.whole:  # only one of the two searches of a pair may find it
            reach = self.cells.reach.take(places)
        within = squared < reach
        self.queried[slots] = self.epoch
        self.ranked[slots] = self.epoch
        self.seen[slots] = self.table.written
        self.fit[slots] = True
        targets = found[within]
        self._rank(np.unique(targets[self.ranked.take(targets) != self.epoch]))
        keys = pack(squared[within], self.table.unpack_writes(own[within]))
        if together:
            self._offer(np.concatenate([own_targets, targets]), np.concatenate([own_keys, keys]), self.width)
        else:
            self._offer(targets, keys, 8)

    def _radius(self, slots: np.ndarray) -> np.ndarray:
        """Return a squared radius ``(q,)`` that should contain `width` rows; NaN if the list is too short."""
        keys = self.table.keys[slots]
        live = self.table.live(keys)
        number = live.sum(1)
        keys[~live] = EMPTY
        keys.sort(axis=1)
        last = unpack_distances(keys[np.arange(len(slots)), np.maximum(number - 1, 0)])
        growth = (self.width / np.maximum(number, 1)) ** 0.25  # in eight dimensions, r² grows as n^(2/8)
        return np.where((number >= self.k) & self.valid[self.queried[slots]], last * growth, np.nan)

    def _offer(self, slots: np.ndarray, keys: np.ndarray, limit: int) -> None:
        """Enter `keys` ``(m,)`` into the lists of `slots` ``(m,)`` if they are near enough."""
        groups, turns, lines = group_keys(slots, keys, limit)
        ends = np.searchsorted(turns, np.arange(turns.max(initial=-1) + 2))
        for start, end in zip(ends[:-1], ends[1:], strict=True):
            last = self.table.merge(groups[start:end], lines[start:end])[:, -1]
            full = last != EMPTY
            self.cells.reach[self.cells.place[groups[start:end][full]]] = unpack_distances(last[full])

    def _rank_outdated(self, rows: int) -> None:
        """Rank the next `rows` lists in turn if their distances are in an earlier scale."""
        count = self.table.count
        turn = (self.tidied + np.arange(min(rows, count))) % count
        self.tidied = int(turn[-1] + 1) % count
        self._rank(turn[(self.ranked[turn] != self.epoch) & (self.queried[turn] > 0)])

    def _rank(self, slots: np.ndarray) -> None:
        """Sort the candidates of `slots` ``(n,)``, without repetition, by their distances in the current scale."""
        for start in range(0, len(slots), RANKED):
            self._rank_block(slots[start : start + RANKED])

    def _rank_block(self, slots: np.ndarray) -> None:
        keys = self.table.keys.take(slots, axis=0)
        live = self.table.live(keys)
        whole = bool(live.all())
        other = self.table.unpack_slots(keys)
        if not whole:
            other = np.where(live, other, slots[:, None])
        vectors = self.cells.vectors
        place = self.cells.place
        difference = vectors.take(place.take(other.ravel()), axis=0).reshape(*other.shape, -1)
        difference -= vectors.take(place.take(slots), axis=0)[:, None]  # whole rows: twice as fast as vectors alone
        difference = difference[..., : self.cells.dims]
        squared = np.einsum("ijk,ijk->ij", difference, difference)
        if whole:
            before = unpack_distances(keys[:, -1])
            after = squared.max(1)
            keys = pack(squared, keys)
        else:
            before = np.where(live, unpack_distances(keys), -1.0).max(1)
            after = np.where(live, squared, -1.0).max(1)
            keys = np.where(live, pack(squared, keys), EMPTY)
        keys.sort(axis=1)
        self.table.keys[slots] = keys
        self.ranked[slots] = self.epoch
        self.fit[slots] = self.valid[self.queried[slots]]
        known = (before > 0) & (after > 0)
        self.cells.reach[self.cells.place[slots[known]]] *= after[known] / before[known]

    # -- State -------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        count = self.table.count
        state: dict[str, Any] = {name: getattr(self, name)[:count] for name in ("queried", "ranked", "seen")}
        state |= {name: getattr(self, name).state_dict() for name in ("table", "cells", "scale")}
        state |= attributes(self, COUNTERS)
        return state | {"stds": self.stds, "pending": np.array(self.pending, np.int64), "moved": self.moved}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in ("queried", "ranked", "seen"):
            getattr(self, name)[: len(state[name])] = np.asarray(state[name])
        for name in ("table", "cells", "scale"):
            getattr(self, name).load_state_dict(state[name])
        for name in COUNTERS:
            setattr(self, name, int(state[name]))
        self.stds = np.array(state["stds"], np.float64)
        self.pending = list(map(int, state["pending"]))
        self.moved = np.array(state["moved"], np.float64)
        self._set_tolerance()
        self._validate()
