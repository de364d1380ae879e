"""The lists of neighbors of everything stored: searched for, offered to each other, ranked in the scale of now."""

from __future__ import annotations

import numpy as np

from interreplay.neighborhood.knn_index.cell_search import Search
from interreplay.neighborhood.knn_index.exact_search import ExactSearch
from interreplay.neighborhood.knn_index.inverted_file import InvertedFile
from interreplay.neighborhood.knn_index.neighbor_table import EMPTY, NeighborTable, by_group, pack, squared_of
from interreplay.neighborhood.scale import RunningStandardizer, drift

SEARCH_DRIFT = 0.15  # drift from which on candidates are searched anew; 10 of 32 survive .2 with recall .999
BLOCK = 2048  # lists handled at a time
RANKED = 256  # lists ranked at a time: their candidates stay in the cache
AHEAD = 1024  # lists looked at beyond those asked for, when some of these were ranked in an earlier scale


class CandidateLists:
    """For each row stored, a list of candidates that contains its k nearest.

    An *epoch* is a time during which distances are taken in one scale. When a new one begins, lists are
    ranked anew as they are asked for, and searched for anew where the scale has gone far.

    Args:
        capacity: Number of slots.
        dims: Number of features.
        k: Neighbors that must be right.
        width: Candidates kept per row.
        fixed: Features, the last ones, that are measured as they are.
    """

    def __init__(self, capacity: int, dims: int, k: int, width: int, fixed: int = 0):
        self.k, self.width = k, width
        self.table = NeighborTable(capacity, width)
        self.cells = InvertedFile(capacity, dims)
        self.scale = RunningStandardizer(dims, fixed)
        self.queried = np.zeros(capacity, np.int32)  # epoch of the last search for a row, 0: never
        self.ranked = np.zeros(capacity, np.int32)  # epoch of its distances
        self.seen = np.zeros(capacity, np.int64)  # rows written at its last search
        self.fit = np.zeros(capacity, bool)  # whether both are good in this epoch; small, so that it stays in the cache
        self.stds = np.zeros((1, dims))  # of each epoch
        self.valid = np.zeros(1, bool)  # which epochs' searches still serve
        self.tidied = 0  # the row next in turn to be ranked before it is asked for

    @property
    def epoch(self) -> int:
        return len(self.stds) - 1

    def begin_epoch(self) -> None:
        """Take distances in another scale from here on."""
        self.stds = np.concatenate([self.stds, self.scale.std[None]])
        self.judge()

    def judge(self) -> None:
        """Find out which searches still serve and which lists are fit for use."""
        free = self.scale.free
        self.valid = drift(self.stds[:, free], self.scale.std[free]) < SEARCH_DRIFT
        self.valid[0] = False
        used = slice(0, self.table.count)
        self.fit[used] = self.valid[self.queried[used]] & (self.ranked[used] == self.epoch)

    def complete(self, slots: np.ndarray) -> bool:
        """Return whether the first k candidates of all `slots` ``(n,)``, mended, are their k nearest, at one look.

        So it is while nothing was overwritten, where all lists are long enough.
        """
        if self.table.written > self.table.capacity:
            return False
        return not (self.table.pick(slots, self.k - 1) == EMPTY).any()

    def candidates(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return candidates of `slots` ``(n,)``, mended.

        Returns:
            Their ages ``(n, width)``, nearest first, and the number of live ones up to and with each, float32
            ``(n, width)``.
        """
        ages, order = self.table.count_live(self.table.keys.take(slots, axis=0))
        short = order[:, -1] < min(self.k, self.table.count - 1)
        if short.any():
            self._complete(np.unique(slots[short]))
            ages, order = self.table.count_live(self.table.keys.take(slots, axis=0))
        return ages, order

    def mend(self, slots: np.ndarray) -> None:
        """Make the lists of `slots` ``(n,)`` fit for use."""
        if self.fit.take(slots).all():
            return
        slots = np.unique(slots)
        self.search(slots[~self.valid[self.queried[slots]]])
        earlier = slots[self.ranked[slots] != self.epoch]
        if len(earlier):
            self.rank(earlier)
            self.tidy(AHEAD)

    def tidy(self, rows: int) -> None:
        """Rank, of the next `rows` rows in turn, the lists whose distances are of an earlier scale."""
        count = self.table.count
        turn = (self.tidied + np.arange(min(rows, count))) % count
        self.tidied = int(turn[-1] + 1) % count
        self.rank(turn[(self.ranked[turn] != self.epoch) & (self.queried[turn] > 0)])

    def _complete(self, slots: np.ndarray) -> None:
        """Search further and further for rows with fewer than k candidates."""
        for probes in (self.cells.probes, len(self.cells.centers)):
            self.search(slots, probes)
            enough = self.table.live(self.table.keys[slots]).sum(1) >= min(self.k, self.table.count - 1)
            slots = slots[~enough]
            if self.cells.whole or not len(slots):
                return

    def search(self, slots: np.ndarray, probes: int | None = None) -> None:
        """Find the candidates of `slots` ``(q,)``, each once, and offer these rows to all who may want them."""
        if not len(slots):
            return
        self.rank(slots[(self.queried[slots] > 0) & (self.ranked[slots] != self.epoch)])
        search: Search | ExactSearch
        if self.cells.whole:
            search = ExactSearch(self.cells, slots, self.width)
        else:
            search = Search(self.cells, slots, self.width, self._radius(slots), probes or self.cells.probes)
        query, places, squared = search.run()
        own, found = slots.take(query), self.cells.slots.take(places).astype(np.int64)
        inside = squared <= search.radius.take(query)
        mine = own[inside], pack(squared[inside], self.table.write_of(found[inside]))
        reach = self.cells.reach.take(places)
        self.cells.reach[search.places] = search.radius
        together = self.cells.whole and len(mine[0]) <= (self.width + 1) * len(slots)  # then that takes less time
        if not together:
            self._offer(*mine, 4 * self.width)
        if not self.cells.whole:  # of a pair searched for one may be found by the other alone
            reach = self.cells.reach.take(places)
        wanted = squared < reach
        self.queried[slots] = self.ranked[slots] = self.epoch
        self.seen[slots], self.fit[slots] = self.table.written, True
        targets = found[wanted]
        self.rank(np.unique(targets[self.ranked.take(targets) != self.epoch]))
        theirs = targets, pack(squared[wanted], self.table.write_of(own[wanted]))
        if together:
            slots, keys = (np.concatenate(pair) for pair in zip(mine, theirs, strict=True))
            self._offer(slots, keys, self.width)
        else:
            self._offer(*theirs, 8)

    def _radius(self, slots: np.ndarray) -> np.ndarray:
        """Return squared radius ``(q,)`` that should hold `width` rows; NaN where the list does not tell."""
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
            last = self.table.merge(groups[start:end], lines[start:end])[:, -1]
            full = last != EMPTY
            self.cells.reach[self.cells.place[groups[start:end][full]]] = squared_of(last[full])

    def rank(self, slots: np.ndarray) -> None:
        """Take the distances of the candidates of `slots` ``(n,)``, each once, in the scale of now."""
        for start in range(0, len(slots), RANKED):
            self._rank(slots[start : start + RANKED])

    def _rank(self, slots: np.ndarray) -> None:
        keys = self.table.keys.take(slots, axis=0)
        live = self.table.live(keys)
        other, whole = self.table.slots_of(keys), bool(live.all())
        if not whole:
            other = np.where(live, other, slots[:, None])
        vectors, place = self.cells.vectors, self.cells.place
        difference = vectors.take(place.take(other.ravel()), axis=0).reshape(*other.shape, -1)
        difference -= vectors.take(place.take(slots), axis=0)[:, None]  # with what is beside the vectors: twice as fast
        difference = difference[..., : self.cells.dims]
        squared = np.einsum("ijk,ijk->ij", difference, difference)
        before = squared_of(keys[:, -1]) if whole else np.where(live, squared_of(keys), -1.0).max(1)
        after = squared.max(1) if whole else np.where(live, squared, -1.0).max(1)
        keys = pack(squared, keys) if whole else np.where(live, pack(squared, keys), EMPTY)
        keys.sort(axis=1)
        self.table.keys[slots] = keys
        self.ranked[slots] = self.epoch
        self.fit[slots] = self.valid[self.queried[slots]]
        known = (before > 0) & (after > 0)
        self.cells.reach[self.cells.place[slots[known]]] *= after[known] / before[known]
