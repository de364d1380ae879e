"""k-means, and how many of its cells a search has to visit."""

from __future__ import annotations

import numpy as np

CHUNK = 1 << 14
TRAIN_PER_CELL = 64
ROUNDS = 6
TRIALS = 160  # rows whose neighbors are looked up exactly to measure recall
NEAREST = 10


def assign(vectors: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Return the nearest of `centers` ``(cells, d)`` for each of `vectors` ``(n, d)``: int64 ``(n,)``."""
    squares = (centers * centers).sum(1)
    parts = [(squares - 2.0 * (vectors[i : i + CHUNK] @ centers.T)).argmin(1) for i in range(0, len(vectors), CHUNK)]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def centers_of(vectors: np.ndarray, count: int) -> np.ndarray:
    """Return centers ``(count, d)`` by Lloyd's algorithm on a sample of `vectors` ``(n, d)``, n ≥ count or count = 1.

    Deterministic: the sample depends on n only. A cell without members starts again at a random row.
    """
    if count == 1:
        return np.zeros((1, vectors.shape[1]), np.float32)
    rng = np.random.default_rng(len(vectors))
    sample = vectors[rng.choice(len(vectors), min(len(vectors), count * TRAIN_PER_CELL), replace=False)]
    centers = sample[:count].copy()
    for _ in range(ROUNDS):
        cells = assign(sample, centers)
        sizes = np.bincount(cells, minlength=count)
        sums = np.stack([np.bincount(cells, column, minlength=count) for column in sample.T.astype(np.float64)], 1)
        centers = (sums / np.maximum(sizes, 1)[:, None]).astype(np.float32)
        empty = np.flatnonzero(sizes == 0)
        centers[empty] = sample[rng.integers(len(sample), size=len(empty))]
    return centers


def sweep_share(vectors: np.ndarray, cells: np.ndarray, centers: np.ndarray, recall: float) -> int:
    """Return how many of the nearest cells must be visited to find the share `recall` of the 10 nearest rows.

    Measured against exact search for 160 of the `vectors` ``(n, d)``, which lie in `cells` ``(n,)``.
    """
    rng = np.random.default_rng(len(vectors))
    queries = vectors[rng.choice(len(vectors), TRIALS, replace=False)]
    best, found = np.empty((TRIALS, 0), np.float32), np.empty((TRIALS, 0), np.int64)
    for start in range(0, len(vectors), CHUNK):
        part = vectors[start : start + CHUNK]
        distances = np.einsum("ij,ij->i", part, part) - 2.0 * (queries @ part.T)
        keep = min(NEAREST + 1, len(part))
        near = np.argpartition(distances, keep - 1, axis=1)[:, :keep]
        best = np.concatenate([best, np.take_along_axis(distances, near, 1)], 1)
        found = np.concatenate([found, near + start], 1)
    order = np.argsort(best, axis=1, kind="stable")[:, : NEAREST + 1]
    theirs = cells[np.take_along_axis(found, order, 1)]
    to_centers = (centers * centers).sum(1) - 2.0 * (queries @ centers.T)
    rank = np.argsort(np.argsort(to_centers, axis=1, kind="stable"), axis=1, kind="stable")
    ranks = np.take_along_axis(rank, theirs, 1)[:, 1:]
    return int(min(np.quantile(ranks, recall, method="higher") + 1, len(centers)))
