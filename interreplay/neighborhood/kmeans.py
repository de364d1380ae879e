"""k-means by scikit-learn, on one thread.

A trial has a fixed number of CPUs; more threads than that slow each other down. scikit-learn is imported on the first
call, because its import takes a second.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

TRAIN_PER_CELL = 64
ROUNDS = 6


def partition(vectors: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Partition rows ``(n, d)`` float32, n ≥ `count`, into cells by Lloyd's algorithm on a sample.

    The result is deterministic: the sample depends on n only. Return centers ``(count, d)`` float32 and the cell of
    each row ``(n,)``.
    """
    if count == 1:
        return np.zeros((1, vectors.shape[1]), np.float32), np.zeros(len(vectors), np.int64)
    rng = np.random.default_rng(len(vectors))
    sample = vectors[rng.choice(len(vectors), min(len(vectors), count * TRAIN_PER_CELL), replace=False)]
    with _one_thread():
        from sklearn.cluster import KMeans

        model = KMeans(count, init=sample[:count], n_init=1, max_iter=ROUNDS, tol=0.0, random_state=0)
        cells = model.fit(sample).predict(vectors)
    return model.cluster_centers_, cells


def move_centers(centers: np.ndarray, weights: np.ndarray, batches: Iterable[np.ndarray]) -> np.ndarray:
    """Return `centers` ``(K, d)`` float64 after one step of mini-batch k-means per batch (Sculley 2010, WWW).

    A step moves each center to the weighted mean of itself and the rows of the batch ``(n, d)`` that are nearest to it.
    `weights` ``(K,)`` are the positive numbers of rows that the centers represent.
    """
    with _one_thread():
        from sklearn.cluster import MiniBatchKMeans

        model = MiniBatchKMeans(
            len(centers), init=centers, n_init=1, reassignment_ratio=0.0, compute_labels=False, random_state=0
        )
        model.partial_fit(centers, sample_weight=weights)  # keeps the centers and sets their counts to the weights
        for batch in batches:
            model.partial_fit(batch)
    return model.cluster_centers_


def nearest_rows(rows: np.ndarray, queries: np.ndarray, k: int) -> np.ndarray:
    """Return the indices ``(q, k)`` of the k of `rows` ``(n, d)`` that are nearest to each of `queries` ``(q, d)``."""
    with _one_thread():
        from sklearn.neighbors import NearestNeighbors

        return NearestNeighbors(n_neighbors=k, algorithm="brute").fit(rows).kneighbors(queries, return_distance=False)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    from sklearn.exceptions import ConvergenceWarning

    with _thread_controller().limit(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # equal rows leave cells empty
        yield


@functools.cache
def _thread_controller() -> Any:
    import sklearn.cluster  # noqa: F401  # loads the libraries with limited threads
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
