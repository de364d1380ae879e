"""Searching cells: who is near the query, and in whose reach does it lie?"""

from __future__ import annotations

import numpy as np

from interreplay.neighborhood.knn_index.inverted_file import PAGE, InvertedFile

CAP = 256  # hits of one query in one visit, when duplicates would give thousands
NOISE = 3e-6  # of a product of float32, relative to squared lengths


class Search:
    """One search of many queries in one index.

    Args:
        cells: The index.
        slots: Stored slots to ask for ``(q,)``, each once.
        width: Neighbors wanted per query.
        known: Squared radius ``(q,)`` within which to look; NaN where only the index can tell.
        probes: Cells to visit per query.
    """

    def __init__(self, cells: InvertedFile, slots: np.ndarray, width: int, known: np.ndarray, probes: int):
        self.cells, self.width = cells, width
        self.places = cells.place[slots]
        stored = cells.vectors[self.places]
        d = cells.dims
        self.vectors, self.lengths = stored[:, :d], stored[:, d]
        self.queries = np.concatenate([-2.0 * self.vectors, np.ones_like(stored[:, :1]), stored[:, d : d + 1]], 1)
        self.probed = self._nearest_cells(probes)
        self.radius = known.astype(np.float32)
        for query in np.flatnonzero(np.isnan(self.radius)):
            self.radius[query] = self._radius(query)
        self.hits: list[np.ndarray] = []

    def _nearest_cells(self, probes: int) -> np.ndarray:
        """Return the nearest cells ``(q, probes)``; the first is the nearest, the rest in no order."""
        count = len(self.cells.centers)
        if count == 1:
            return np.zeros((len(self.places), 1), np.int64)
        distances = self.cells.squares - 2.0 * (self.vectors @ self.cells.centers.T)
        kth = [0, probes - 1] if 1 < probes < count else [0]
        return np.argpartition(distances, kth, axis=1)[:, :probes]

    def _pages(self, cells: np.ndarray | np.intp) -> np.ndarray:
        pages = self.cells.pages[cells].ravel()
        return pages[pages >= 0]

    def _rows(self, pages: np.ndarray) -> np.ndarray:
        """Return the rows of `pages`, one after the other ``(m, d + 2)``."""
        return self.cells.vectors.reshape(-1, PAGE, self.cells.dims + 2)[pages].reshape(-1, self.cells.dims + 2)

    def _radius(self, query: np.intp) -> float:
        """Return squared distance of the query's width-th neighbor in its nearest cells: never below the true one."""
        counts = self.cells.counts[self.probed[query]]
        enough = int(np.searchsorted(np.cumsum(counts), 2 * self.width)) + 1
        if counts[:enough].sum() <= self.width:
            return np.inf
        distances = self._rows(self._pages(self.probed[query, :enough])) @ self.queries[query]
        return max(float(np.partition(distances, self.width)[self.width]), 0.0)  # the query itself is one of them

    def run(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find all pairs.

        Returns:
            Query indices ``(m,)``, places in the index ``(m,)`` and exact squared distances ``(m,)`` of rows that are
            within the query's radius or have the query in their reach; never the query itself.
        """
        count, probes = self.probed.shape
        if count * 6 < len(self.cells.centers):
            for query in range(count):
                self._visit(np.array([query]), self._pages(self.probed[query]))
        else:
            order = np.argsort(self.probed.ravel(), kind="stable")
            ends = np.searchsorted(self.probed.ravel()[order], np.arange(len(self.cells.centers) + 1))
            for cell in np.flatnonzero((ends[1:] > ends[:-1]) & (self.cells.counts > 0)):
                self._visit(order[ends[cell] : ends[cell + 1]] // probes, self._pages(cell))
        return self._exact()

    def _visit(self, queries: np.ndarray, pages: np.ndarray) -> None:
        """Note the hits of `queries` among the rows of `pages`."""
        rows = self._rows(pages)
        distances = self.queries[queries] @ rows.T
        slack = NOISE * self.lengths[queries]
        limits = self.radius[queries] * np.float32(1.0 + 1e-5) + slack
        reach = self.cells.reach.reshape(-1, PAGE)[pages].ravel()
        near = distances <= np.minimum(limits, 1e29)[:, None]
        near |= distances < reach + NOISE * np.minimum(rows[:, -2], 1e6) * (reach > 0)
        flat = np.flatnonzero(near)
        if len(flat) > CAP * len(queries):
            flat = capped(near, distances)
        query, column = np.divmod(flat, near.shape[1])
        places = pages[column // PAGE] * PAGE + column % PAGE
        self.hits.append(np.stack([queries[query], places]))

    def _exact(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        query, places = np.concatenate(self.hits, axis=1) if self.hits else np.empty((2, 0), np.int64)
        other = places != self.places[query]
        query, places = query[other], places[other]
        difference = self.cells.vectors.take(places, axis=0)[:, : self.cells.dims] - self.vectors[query]
        squared = np.einsum("ij,ij->i", difference, difference)
        return query, places, squared


def capped(near: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """Return flat indices of the hits `near` ``(q, m)``, of each query the nearest 256."""
    for query in np.flatnonzero(near.sum(1) > CAP):
        hits = np.flatnonzero(near[query])
        near[query, hits[np.argpartition(distances[query, hits], CAP)[CAP:]]] = False
    return np.flatnonzero(near)
