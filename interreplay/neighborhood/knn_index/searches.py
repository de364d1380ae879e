"""Searches of an inverted-file index: by cells, or of all rows.

Both find all pairs of a query and a row such that the row is within the query's radius, or the query is in the row's
reach.
"""

from __future__ import annotations

import numpy as np
import torch

from interreplay.neighborhood.knn_index.inverted_file import PAGE, InvertedFile

CAP = 256  # hits of one query in one visit, in case of thousands of duplicates
ROUNDING = 3e-6  # error of a product in float32, relative to squared lengths
SLACK = np.float32(1.0 + 1e-5)
QUERIES = 32  # queries of an exact search at a time
ROWS = 1 << 13  # rows of an exact search at a time; their distances stay in the cache
SAMPLE = 1 << 14  # newest rows that determine the radius of an exact search
GROUPS = 512  # groups of columns; only those with the smallest distances are partitioned

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Query indices ``(m,)``, places in the index ``(m,)`` and exact squared distances ``(m,)``."""


class Search:
    """Base class of searches: the queries, and the selection of pairs by distance.

    Args:
        slots: Slots ``(q,)`` of the rows to find neighbors of, without repetition.
        width: Number of neighbors per query.

    Attributes:
        places: Places of the queries in the index ``(q,)``.
        radius: Squared radius of each query ``(q,)``, float32.
    """

    def __init__(self, cells: InvertedFile, slots: np.ndarray, width: int):
        self.cells = cells
        self.width = width
        self.places = cells.place[slots]
        own = cells.vectors.take(self.places, axis=0)
        d = cells.dims
        self.vectors = own[:, :d]
        self.lengths = own[:, d]
        # One product with [vector, squared length, 1] of a row is the squared distance.
        self.queries = np.concatenate([-2.0 * self.vectors, np.ones_like(own[:, :1]), own[:, d : d + 1]], 1)
        self.radius = np.full(len(slots), np.inf, np.float32)

    def _limits(self, part: slice | np.ndarray) -> np.ndarray:
        """Return the largest squared distances ``(q, 1)`` within the radius of some queries, despite rounding."""
        return np.minimum(self.radius[part] * SLACK + ROUNDING * self.lengths[part], 1e29)[:, None]

    def _find_near(
        self, distances: np.ndarray, limits: np.ndarray, reach: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and columns ``(m,)`` of squared `distances` ``(q, m)`` within the limits or the rows' reach."""
        near = distances <= limits
        near |= distances < reach + ROUNDING * np.minimum(lengths, 1e6) * (reach > 0)
        flat = np.flatnonzero(near)
        if len(flat) > CAP * len(limits):
            for query in np.flatnonzero(near.sum(1) > CAP):
                hits = np.flatnonzero(near[query])
                near[query, hits[np.argpartition(distances[query, hits], CAP)[CAP:]]] = False
            flat = np.flatnonzero(near)
        return np.divmod(flat, near.shape[1])

    def _exact(self, query: np.ndarray, places: np.ndarray) -> Pairs:
        """Return the pairs without the queries themselves, with exact squared distances."""
        other = places != self.places[query]
        query = query[other]
        places = places[other]
        difference = self.cells.vectors.take(places, axis=0)[:, : self.cells.dims] - self.vectors.take(query, axis=0)
        return query, places, np.einsum("ij,ij->i", difference, difference)


class CellSearch(Search):
    """A search of the cells nearest to each query.

    Args:
        known: Squared radius ``(q,)``; NaN if it has to be measured in the index.
        probes: Number of cells to visit per query.
    """

    def __init__(self, cells: InvertedFile, slots: np.ndarray, width: int, known: np.ndarray, probes: int):
        super().__init__(cells, slots, width)
        distances = cells.squares - 2.0 * (self.vectors @ cells.centers.T)
        kth = [0, probes - 1] if 1 < probes < len(cells.centers) else [0]
        # The nearest cells ``(q, probes)``: the nearest one first, the others in any order.
        self.probed = np.argpartition(distances, kth, axis=1)[:, :probes]
        self.radius = known.astype(np.float32)
        for query in np.flatnonzero(np.isnan(self.radius)):
            self.radius[query] = self._radius(query)

    def _pages(self, cells: np.ndarray | np.intp) -> np.ndarray:
        pages = self.cells.pages[cells].ravel()
        return pages[pages >= 0]

    def _rows(self, pages: np.ndarray) -> np.ndarray:
        """Return the rows of `pages`, one page after another ``(m, d + 2)``."""
        return self.cells.vectors.reshape(-1, PAGE, self.cells.dims + 2)[pages].reshape(-1, self.cells.dims + 2)

    def _radius(self, query: np.intp) -> float:
        """Return the squared distance of the width-th neighbor in the nearest cells, an upper bound of the true one."""
        counts = self.cells.counts[self.probed[query]]
        enough = int(np.searchsorted(np.cumsum(counts), 2 * self.width)) + 1
        if counts[:enough].sum() <= self.width:
            return np.inf
        distances = self._rows(self._pages(self.probed[query, :enough])) @ self.queries[query]
        return max(float(np.partition(distances, self.width)[self.width]), 0.0)  # one of them is the query itself

    def run(self) -> Pairs:
        """Return all pairs."""
        count, probes = self.probed.shape
        hits: list[tuple[np.ndarray, np.ndarray]] = []
        if count * 6 < len(self.cells.centers):
            for query in range(count):
                hits.append(self._visit(np.array([query]), self._pages(self.probed[query])))
        else:
            order = np.argsort(self.probed.ravel(), kind="stable")
            ends = np.searchsorted(self.probed.ravel()[order], np.arange(len(self.cells.centers) + 1))
            for cell in np.flatnonzero((ends[1:] > ends[:-1]) & (self.cells.counts > 0)):
                hits.append(self._visit(order[ends[cell] : ends[cell + 1]] // probes, self._pages(cell)))
        pairs = np.concatenate(hits, axis=1) if hits else np.empty((2, 0), np.int64)
        return self._exact(pairs[0], pairs[1])

    def _visit(self, queries: np.ndarray, pages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return query indices and places of the pairs of `queries` and the rows of `pages`."""
        rows = self._rows(pages)
        distances = self.queries[queries] @ rows.T
        reach = self.cells.reach.reshape(-1, PAGE)[pages].ravel()
        query, column = self._find_near(distances, self._limits(queries), reach, rows[:, -2])
        return queries[query], pages[column // PAGE] * PAGE + column % PAGE


class ExactSearch(Search):
    """A search of all rows, in an index with one cell.

    `run` sets the radius. It contains `width` rows, or with many rows at least half as many of the newest ones.
    """

    def run(self) -> Pairs:
        """Return all pairs."""
        parts = [self._run(slice(i, i + QUERIES)) for i in range(0, len(self.queries), QUERIES)]
        query, places = np.concatenate(parts, axis=1)
        return self._exact(query, places)

    def _run(self, part: slice) -> np.ndarray:
        """Return query indices and places ``(2, m)`` of the pairs of some of the queries."""
        count = int(self.cells.counts[0])
        queries = self.queries[part]
        first = max(count - SAMPLE, 0)
        distances = self._distances(queries, first, count)  # to the newest rows, while nothing was overwritten
        if count > self.width:  # the query itself may be one of them
            rank = self.width if count <= SAMPLE else self.width // 2
            self.radius[part] = np.maximum(select_rank(distances, rank), 0.0)
        limits = self._limits(part)
        hits = [self._hits(distances, limits, first)]
        for start in range(0, first, ROWS):
            distances = self._distances(queries, start, min(start + ROWS, first))
            hits.append(self._hits(distances, limits, start))
        found = hits[0] if len(hits) == 1 else np.concatenate(hits, axis=1)
        found[0] += part.start
        return found

    def _distances(self, queries: np.ndarray, start: int, stop: int) -> np.ndarray:
        """Return squared distances ``(q, m)`` to the rows from `start` to `stop`."""
        rows = torch.from_numpy(self.cells.vectors[start:stop])
        return torch.mm(torch.from_numpy(queries), rows.t()).numpy()  # for few queries twice as fast as numpy

    def _hits(self, distances: np.ndarray, limits: np.ndarray, start: int) -> np.ndarray:
        rows = slice(start, start + distances.shape[1])
        query, column = self._find_near(distances, limits, self.cells.reach[rows], self.cells.vectors[rows, -2])
        return np.stack([query, column + start])


def select_rank(distances: np.ndarray, rank: int) -> np.ndarray:
    """Return the `rank`-th smallest distance, counted from 0, of each row of `distances` ``(q, m)``: ``(q,)``.

    It is in one of the `rank` + 1 groups with the smallest minima; the other groups need no partition.
    """
    number, m = distances.shape
    if m < 2 * GROUPS or rank >= GROUPS // 4:
        return np.partition(distances, rank, axis=1)[:, rank]
    whole = m // GROUPS * GROUPS
    groups = distances[:, :whole].reshape(number, -1, GROUPS)
    smallest = np.argpartition(groups.min(axis=1), rank, axis=1)[:, None, : rank + 1]
    few = np.take_along_axis(groups, smallest, axis=2).reshape(number, -1)
    return np.partition(np.concatenate([few, distances[:, whole:]], axis=1), rank, axis=1)[:, rank]
