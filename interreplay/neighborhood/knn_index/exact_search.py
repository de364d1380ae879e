"""Searching everything: who is near the query, and in whose reach does it lie, by products with all rows."""

from __future__ import annotations

import numpy as np
import torch

from interreplay.neighborhood.knn_index.cell_search import CAP, NOISE, capped
from interreplay.neighborhood.knn_index.inverted_file import InvertedFile

QUERIES = 32  # at a time
ROWS = 1 << 13  # at a time: their distances stay in the cache
SAMPLE = 1 << 14  # rows of which the nearest bound the radius
GROUPS = 512  # of columns, of which only those with the least distances are looked through


class ExactSearch:
    """One search of many queries in an index of one cell, whose rows lie side by side.

    Args:
        cells: The index.
        slots: Stored slots to ask for ``(q,)``, each once.
        width: Neighbors wanted per query.
    """

    def __init__(self, cells: InvertedFile, slots: np.ndarray, width: int):
        self.cells, self.width = cells, width
        self.rows = cells.vectors[: int(cells.counts[0])]
        self.places = cells.place[slots]
        own = self.rows.take(self.places, axis=0)
        d = cells.dims
        self.vectors, self.lengths = own[:, :d], own[:, d]
        self.queries = np.concatenate([-2.0 * self.vectors, np.ones_like(own[:, :1]), own[:, d:-1]], 1)
        self.radius = np.full(len(slots), np.inf, np.float32)

    def run(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find all pairs.

        Returns:
            What `cell_search.Search.run` does. `radius` is from now on the squared distance within which a query finds
            what is near: `width` rows, or at least half as many among the newest and further ones among all.
        """
        found = [self._some(slice(i, i + QUERIES)) for i in range(0, len(self.queries), QUERIES)]
        query, places = (np.concatenate(parts) for parts in zip(*found, strict=True))
        other = places != self.places[query]
        query, places = query[other], places[other]
        difference = self.rows.take(places, axis=0)[:, : self.cells.dims] - self.vectors.take(query, axis=0)
        return query, places, np.einsum("ij,ij->i", difference, difference)

    def _some(self, part: slice) -> tuple[np.ndarray, np.ndarray]:
        """Return queries ``(m,)`` and places ``(m,)`` of the pairs of some of the queries."""
        queries, count = self.queries[part], len(self.rows)
        known = _product(queries, self.rows[-SAMPLE:])  # the newest, while nothing was overwritten
        rank = self.width if count <= SAMPLE else self.width // 2
        if count > self.width:  # the query itself may be one of them
            self.radius[part] = np.maximum(ranked(known, rank), 0.0)
        limits = np.minimum(self.radius[part] * np.float32(1.0 + 1e-5) + NOISE * self.lengths[part], 1e29)[:, None]
        first = max(count - SAMPLE, 0)
        hits = [self._hits(known, limits, first)]
        for start in range(0, first, ROWS):
            rows = self.rows[start : min(start + ROWS, first)]
            hits.append(self._hits(_product(queries, rows), limits, start))
        query, places = hits[0] if len(hits) == 1 else (np.concatenate(parts) for parts in zip(*hits, strict=True))
        return query + part.start, places

    def _hits(self, distances: np.ndarray, limits: np.ndarray, start: int) -> tuple[np.ndarray, np.ndarray]:
        """Return queries and places of the squared `distances` ``(q, m)`` to the rows from `start` on that are near.

        Near is within the limits ``(q, 1)`` of the queries or in the reach of the rows.
        """
        part = slice(start, start + distances.shape[1])
        reach = self.cells.reach[part]
        near = distances <= limits
        near |= distances < reach + NOISE * np.minimum(self.rows[part, -2], 1e6) * (reach > 0)
        flat = np.flatnonzero(near)
        if len(flat) > CAP * len(limits):
            flat = capped(near, distances)
        query, column = np.divmod(flat, near.shape[1])
        return query, column + start


def ranked(distances: np.ndarray, rank: int) -> np.ndarray:
    """Return distance number `rank`, counted from 0 at the least, of each line of `distances` ``(q, m)``: ``(q,)``.

    It lies in one of the `rank` + 1 groups whose least distances are the least; the other groups need no partition.
    """
    number, m = distances.shape
    if m < 2 * GROUPS or rank >= GROUPS // 4:
        return np.partition(distances, rank, axis=1)[:, rank]
    whole = m // GROUPS * GROUPS
    groups = distances[:, :whole].reshape(number, -1, GROUPS)
    least = np.argpartition(groups.min(axis=1), rank, axis=1)[:, None, : rank + 1]
    few = np.take_along_axis(groups, least, axis=2).reshape(number, -1)
    return np.partition(np.concatenate([few, distances[:, whole:]], axis=1), rank, axis=1)[:, rank]


def _product(queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return `queries` ``(q, d)`` times `rows` ``(n, d)``, ``(q, n)``: with few queries in half of numpy's time."""
    return torch.mm(torch.from_numpy(queries), torch.from_numpy(rows).t()).numpy()
