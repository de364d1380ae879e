"""An inverted-file index: rows grouped around k-means centers, searched by matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from interreplay.neighborhood.knn_index.kmeans import assign, centers_of, sweep_share

PAGE = 64  # rows per page
MAX_CELLS = 1024
EXACT = 1 << 17  # rows below which all of them are searched: exact, and no dearer than cells for a few rows at a time
FAR = 1e30  # squared length of what is not there


def cells_for(count: int) -> int:
    """Return how many cells suit `count` rows: √N, one (exact search) below 131,072 rows, at most 1024."""
    return 1 if count < EXACT else min(int(round(count**0.5)), MAX_CELLS)


def share_for(count: int) -> float:
    """Return share of the 10 nearest rows that should lie in the cells visited; a search is cheap while rows are few.

    What one search misses, the search for the other row of the pair mostly finds: lists end up better than this.
    """
    return 0.99 if count < 200_000 else 0.975


class InvertedFile:
    """Scaled vectors in the cells of a k-means partition, in pages of 64 rows.

    A search visits the nearest `probes` cells of a query; how many that takes for the wished recall is measured
    on the rows themselves at each `build`. Each row has a *reach*, a squared distance: a search reports
    every row that is near the query, and every row in whose reach the query lies. The latter are those whose
    nearest neighbors change when the query is a new row: in 23 dimensions most of them are *not* among
    the new row's own nearest.

    Args:
        capacity: Number of slots.
        dims: Number of features d.
    """

    def __init__(self, capacity: int, dims: int):
        self.capacity, self.dims = capacity, dims
        pages = -(-capacity // PAGE) + MAX_CELLS + 1
        # allocated at once, touched only as rows come: [vector, squared length, 1] so that one product is a distance
        self.vectors = np.empty((pages * PAGE, dims + 2), np.float32)
        self.slots = np.empty(pages * PAGE, np.int32)
        self.reach = np.empty(pages * PAGE, np.float32)
        self.place = np.full(capacity, -1, np.int32)  # of each slot, among the above
        self.page_cell = np.zeros(pages, np.int32)
        self.page_rank = np.zeros(pages, np.int32)
        self.pages_used = 0
        self.spare: list[int] = []
        self.restart(np.zeros((1, dims), np.float32))

    def restart(self, centers: np.ndarray) -> None:
        """Begin without rows, with these `centers` ``(cells, d)``."""
        self.place[:] = -1
        self.pages_used, self.spare = 0, []
        self.centers, self.probes = centers, len(centers)
        self.counts = np.zeros(len(centers), np.int64)
        self.pages = np.full((len(centers), 4), -1, np.int32)
        self.squares = (centers * centers).sum(1)

    def build(self, slots: np.ndarray, vectors: np.ndarray) -> None:
        """Partition anew: `vectors` ``(n, d)`` of `slots` ``(n,)``; every reach becomes −1 (none)."""
        count = cells_for(len(slots))
        self.restart(centers_of(vectors, count))
        cells = assign(vectors, self.centers)
        order = np.argsort(cells, kind="stable")
        ends = np.searchsorted(cells[order], np.arange(count + 1))
        for cell in range(count):
            self._fill(cell, slots, vectors, order[ends[cell] : ends[cell + 1]])
        if count > 1:
            self.probes = sweep_share(vectors, cells, self.centers, share_for(len(slots)))

    def _fill(self, cell: int, slots: np.ndarray, vectors: np.ndarray, members: np.ndarray) -> None:
        for start in range(0, len(members), PAGE):
            part = members[start : start + PAGE]
            at = self._new_page(cell) * PAGE
            rows = self.vectors[at : at + len(part)]
            rows[:, : self.dims] = vectors[part]
            rows[:, self.dims] = np.einsum("ij,ij->i", vectors[part], vectors[part])
            self.slots[at : at + len(part)] = slots[part]
            self.place[slots[part]] = np.arange(at, at + len(part))
            self.counts[cell] += len(part)

    def _new_page(self, cell: int) -> int:
        """Return a page without rows at the end of `cell`."""
        if self.spare:
            page = self.spare.pop()
        else:
            page, self.pages_used = self.pages_used, self.pages_used + 1
        rank = int(self.counts[cell]) // PAGE
        if rank == self.pages.shape[1]:
            self.pages = np.pad(self.pages, ((0, 0), (0, rank)), constant_values=-1)
        self.pages[cell, rank] = page
        self.page_cell[page], self.page_rank[page] = cell, rank
        self._blank(slice(page * PAGE, (page + 1) * PAGE))
        return page

    def _blank(self, places: slice | int) -> None:
        self.vectors[places, : self.dims] = 0.0
        self.vectors[places, self.dims] = FAR
        self.vectors[places, self.dims + 1] = 1.0
        self.slots[places] = -1
        self.reach[places] = -1.0

    def insert(self, slot: int, vector: np.ndarray) -> None:
        """Put one row ``(d,)`` into its cell; its reach is −1."""
        cell = int((self.squares - 2.0 * (self.centers @ vector)).argmin()) if len(self.centers) > 1 else 0
        rank, within = divmod(int(self.counts[cell]), PAGE)
        page = self._new_page(cell) if within == 0 else int(self.pages[cell, rank])
        at = page * PAGE + within
        row = self.vectors[at]
        row[: self.dims] = vector
        row[self.dims] = np.dot(vector, vector)
        self.slots[at], self.place[slot] = slot, at
        self.counts[cell] += 1

    def extend(self, slots: np.ndarray, vectors: np.ndarray) -> None:
        """Put rows `vectors` ``(n, d)`` into the cells of an index; their reaches are −1."""
        if not self.whole:
            for slot, vector in zip(slots.tolist(), vectors, strict=True):
                self.insert(slot, vector)
            return
        start = int(self.counts[0])
        stop = start + len(slots)
        for rank in range(-(-start // PAGE), -(-stop // PAGE)):
            self.counts[0] = rank * PAGE
            self._new_page(0)  # pages of an only cell follow each other
        self.counts[0] = stop
        self.vectors[start:stop, : self.dims] = vectors
        self.vectors[start:stop, self.dims] = np.einsum("ij,ij->i", vectors, vectors)
        self.slots[start:stop], self.place[slots] = slots, np.arange(start, stop)

    def remove(self, slot: int) -> None:
        """Take one row out; the last row of its cell takes its place."""
        at = int(self.place[slot])
        cell = int(self.page_cell[at // PAGE])
        rank, within = divmod(int(self.counts[cell]) - 1, PAGE)
        page = int(self.pages[cell, rank])
        last = page * PAGE + within
        moved = self.slots[last]
        self.vectors[at], self.reach[at], self.slots[at] = self.vectors[last], self.reach[last], moved
        self.place[moved] = at
        self._blank(last)
        self.place[slot] = -1
        self.counts[cell] -= 1
        if within == 0:
            self.pages[cell, rank] = -1
            self.spare.append(page)

    @property
    def whole(self) -> bool:
        """Whether there is one cell, in which rows lie side by side."""
        return len(self.centers) == 1

    def rows(self, slots: np.ndarray) -> np.ndarray:
        """Return vectors ``(n, d)`` of stored `slots` ``(n,)``."""
        return self.vectors.take(self.place[slots], axis=0)[:, : self.dims]

    def replace(self, slots: np.ndarray, vectors: np.ndarray) -> None:
        """Give `slots` ``(n,)`` other vectors ``(n, d)`` and leave them in their cells."""
        at = self.place[slots]
        self.vectors[at, : self.dims] = vectors
        self.vectors[at, self.dims] = np.einsum("ij,ij->i", vectors, vectors)

    def move_centers(self, centers: np.ndarray) -> None:
        """Move the centers of the same cells, seen in another scale: `centers` ``(cells, d)``."""
        self.centers, self.squares = centers, (centers * centers).sum(1)

    @property
    def stored(self) -> np.ndarray:
        """Slots ``(n,)`` of the rows in here: as they lie in an only cell, else ascending."""
        if self.whole:
            return self.slots[: int(self.counts[0])].astype(np.int64)
        return np.flatnonzero(self.place >= 0)

    def state_dict(self) -> dict[str, Any]:
        """Return everything; the large arrays share memory."""
        used = self.pages_used * PAGE
        state = {name: getattr(self, name)[:used] for name in ("vectors", "slots", "reach")}
        state |= {name: getattr(self, name)[: self.pages_used] for name in ("page_cell", "page_rank")}
        state |= {name: getattr(self, name) for name in ("place", "centers", "counts", "pages", "squares")}
        return state | {"probes": self.probes, "pages_used": self.pages_used, "spare": np.array(self.spare, np.int64)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in ("vectors", "slots", "reach", "page_cell", "page_rank", "place"):
            getattr(self, name)[: len(state[name])] = np.asarray(state[name])
        for name in ("centers", "counts", "pages", "squares"):
            setattr(self, name, np.array(state[name]))
        self.probes, self.pages_used = int(state["probes"]), int(state["pages_used"])
        self.spare = [int(page) for page in state["spare"]]
