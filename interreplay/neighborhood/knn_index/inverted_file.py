"""An inverted-file index: rows grouped around k-means centers and searched by matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from interreplay.neighborhood.kmeans import nearest_rows, partition
from interreplay.storage.state_copies import attributes

PAGE = 64  # rows per page
MAX_CELLS = 1024
EXACT = 1 << 17  # rows below which all are searched: exact, and as fast as cells for a few rows at a time
FAR = 1e30  # squared length of empty places
TRIALS = 160  # rows with exactly searched neighbors, to measure recall
NEAREST = 10

ROW_ARRAYS = ("vectors", "slots", "reach")
PAGE_ARRAYS = ("page_cell", "page_rank")
CELL_ARRAYS = ("centers", "counts", "pages", "squares")


def choose_cells(count: int) -> int:
    """Return the number of cells for `count` rows: √N, at most 1024; one (exact search) below 131,072 rows."""
    return 1 if count < EXACT else min(int(round(count**0.5)), MAX_CELLS)


class InvertedFile:
    """Scaled vectors in the cells of a k-means partition, in pages of 64 rows.

    A search visits the `probes` cells nearest to a query; `build` measures how many are required for the intended
    recall. Each row has a *reach*, a squared distance: a search returns every row near the query, and every row with
    the query in its reach. The nearest neighbors of the latter change if the query is a new row; in 23 dimensions most
    of them are *not* among the new row's own nearest neighbors.
    """

    def __init__(self, capacity: int, dims: int):
        self.dims = dims
        pages = -(-capacity // PAGE) + MAX_CELLS + 1
        # Allocated once, but only rows in use take memory. [vector, squared length, 1]: one product is a distance.
        self.vectors = np.empty((pages * PAGE, dims + 2), np.float32)
        self.slots = np.empty(pages * PAGE, np.int32)
        self.reach = np.empty(pages * PAGE, np.float32)
        self.place = np.full(capacity, -1, np.int32)  # place of each slot in these arrays
        self.page_cell = np.zeros(pages, np.int32)
        self.page_rank = np.zeros(pages, np.int32)
        self.restart(np.zeros((1, dims), np.float32))

    def restart(self, centers: np.ndarray) -> None:
        """Remove all rows and use `centers` ``(cells, d)``."""
        self.place[:] = -1
        self.pages_used = 0
        self.spare: list[int] = []
        self.probes = len(centers)
        self.counts = np.zeros(len(centers), np.int64)
        self.pages = np.full((len(centers), 4), -1, np.int32)
        self.set_centers(centers)

    def set_centers(self, centers: np.ndarray) -> None:
        """Replace the centers of the cells, for example by the same ones in another scale."""
        self.centers = centers
        self.squares = (centers * centers).sum(1)

    @property
    def whole(self) -> bool:
        """Whether there is one cell, in which rows are contiguous."""
        return len(self.centers) == 1

    @property
    def stored(self) -> np.ndarray:
        """Slots ``(n,)`` of the stored rows: in the order of a single cell, else ascending."""
        if self.whole:
            return self.slots[: int(self.counts[0])].astype(np.int64)
        return np.flatnonzero(self.place >= 0)

    def build(self, slots: np.ndarray, vectors: np.ndarray) -> None:
        """Partition `vectors` ``(n, d)`` of `slots` ``(n,)``; every reach becomes −1 (none)."""
        centers, cells = partition(vectors, choose_cells(len(slots)))
        self.restart(centers)
        order = np.argsort(cells, kind="stable")
        ends = np.searchsorted(cells[order], np.arange(len(centers) + 1))
        for cell in range(len(centers)):
            members = order[ends[cell] : ends[cell + 1]]
            for start in range(0, len(members), PAGE):
                rows = members[start : start + PAGE]
                at = self._new_page(cell) * PAGE
                self.slots[at : at + len(rows)] = slots[rows]
                self.place[slots[rows]] = np.arange(at, at + len(rows))
                self.counts[cell] += len(rows)
        self.replace(slots, vectors)
        if not self.whole:
            self.probes = self._choose_probes(vectors, cells)

    def _choose_probes(self, vectors: np.ndarray, cells: np.ndarray) -> int:
        """Return the number of cells that a search must visit for the intended recall of the 10 nearest rows.

        The recall is measured on 160 of the `vectors` ``(n, d)`` in `cells` ``(n,)``. Most pairs that a search misses
        are found by the search for the other row, so lists have a higher recall.
        """
        recall = 0.99 if len(vectors) < 200_000 else 0.975
        queries = vectors[np.random.default_rng(len(vectors)).choice(len(vectors), TRIALS, replace=False)]
        cells_of_nearest = cells[nearest_rows(vectors, queries, NEAREST + 1)]
        distances = self.squares - 2.0 * (queries @ self.centers.T)
        rank = np.argsort(np.argsort(distances, axis=1, kind="stable"), axis=1, kind="stable")
        ranks = np.take_along_axis(rank, cells_of_nearest, 1)[:, 1:]  # without the query itself
        return int(min(np.quantile(ranks, recall, method="higher") + 1, len(self.centers)))

    def _new_page(self, cell: int) -> int:
        """Append an empty page to `cell` and return it."""
        if self.spare:
            page = self.spare.pop()
        else:
            page = self.pages_used
            self.pages_used += 1
        rank = int(self.counts[cell]) // PAGE
        if rank == self.pages.shape[1]:
            self.pages = np.pad(self.pages, ((0, 0), (0, rank)), constant_values=-1)
        self.pages[cell, rank] = page
        self.page_cell[page] = cell
        self.page_rank[page] = rank
        self._clear(slice(page * PAGE, (page + 1) * PAGE))
        return page

    def _clear(self, places: slice | int) -> None:
        self.vectors[places, : self.dims] = 0.0
        self.vectors[places, self.dims] = FAR
        self.vectors[places, self.dims + 1] = 1.0
        self.slots[places] = -1
        self.reach[places] = -1.0

    def extend(self, slots: np.ndarray, vectors: np.ndarray) -> None:
        """Insert rows `vectors` ``(n, d)`` into their cells; their reaches are −1."""
        if self.whole:
            start = int(self.counts[0])
            stop = start + len(slots)
            for rank in range(-(-start // PAGE), -(-stop // PAGE)):
                self.counts[0] = rank * PAGE
                self._new_page(0)  # the pages of a single cell are contiguous
            self.counts[0] = stop
            self.slots[start:stop] = slots
            self.place[slots] = np.arange(start, stop)
            self.replace(slots, vectors)
            return
        for slot, vector in zip(slots.tolist(), vectors, strict=True):
            cell = int((self.squares - 2.0 * (self.centers @ vector)).argmin())
            rank, within = divmod(int(self.counts[cell]), PAGE)
            page = self._new_page(cell) if within == 0 else int(self.pages[cell, rank])
            at = page * PAGE + within
            self.vectors[at, : self.dims] = vector
            self.vectors[at, self.dims] = np.dot(vector, vector)
            self.slots[at] = slot
            self.place[slot] = at
            self.counts[cell] += 1

    def remove(self, slot: int) -> None:
        """Remove one row; the last row of its cell takes its place."""
        at = int(self.place[slot])
        cell = int(self.page_cell[at // PAGE])
        rank, within = divmod(int(self.counts[cell]) - 1, PAGE)
        page = int(self.pages[cell, rank])
        last = page * PAGE + within
        moved = self.slots[last]
        self.vectors[at] = self.vectors[last]
        self.reach[at] = self.reach[last]
        self.slots[at] = moved
        self.place[moved] = at
        self._clear(last)
        self.place[slot] = -1
        self.counts[cell] -= 1
        if within == 0:
            self.pages[cell, rank] = -1
            self.spare.append(page)

    def rows(self, slots: np.ndarray) -> np.ndarray:
        """Return the vectors ``(n, d)`` of `slots` ``(n,)``."""
        return self.vectors.take(self.place[slots], axis=0)[:, : self.dims]

    def replace(self, slots: np.ndarray, vectors: np.ndarray) -> None:
        """Replace the vectors ``(n, d)`` of `slots` ``(n,)``, which stay in their cells."""
        at = self.place[slots]
        self.vectors[at, : self.dims] = vectors
        self.vectors[at, self.dims] = np.einsum("ij,ij->i", vectors, vectors)

    def state_dict(self) -> dict[str, Any]:
        used = self.pages_used * PAGE
        state: dict[str, Any] = {name: getattr(self, name)[:used] for name in ROW_ARRAYS}
        state |= {name: getattr(self, name)[: self.pages_used] for name in PAGE_ARRAYS}
        state |= attributes(self, ("place", *CELL_ARRAYS))
        return state | {"probes": self.probes, "pages_used": self.pages_used, "spare": np.array(self.spare, np.int64)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in (*ROW_ARRAYS, *PAGE_ARRAYS, "place"):
            getattr(self, name)[: len(state[name])] = np.asarray(state[name])
        for name in CELL_ARRAYS:
            setattr(self, name, np.array(state[name]))
        self.probes = int(state["probes"])
        self.pages_used = int(state["pages_used"])
        self.spare = list(map(int, state["spare"]))
