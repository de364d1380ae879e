"""Searches of the inverted file compared with brute force, with added and removed rows."""

import numpy as np
import pytest

from interreplay.neighborhood.knn_index import inverted_file, searches
from interreplay.neighborhood.knn_index.inverted_file import InvertedFile
from interreplay.neighborhood.knn_index.searches import CellSearch, ExactSearch


@pytest.fixture(autouse=True)
def many_cells(monkeypatch):
    """Use cells from 6,000 rows on, not from 131,072."""
    monkeypatch.setattr(inverted_file, "EXACT", 6_000)


def filled(n: int, d: int = 5, seed: int = 0) -> tuple[InvertedFile, np.ndarray]:
    vectors = np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)
    cells = InvertedFile(2 * n, d)
    cells.build(np.arange(n), vectors)
    return cells, vectors


def with_reaches(n: int, queries: int) -> tuple[InvertedFile, np.ndarray, np.ndarray, np.ndarray]:
    """Return cells in which a few of n rows have a reach, queries, their squared distances, and the reaches."""
    cells, vectors = filled(n)
    slots = np.random.default_rng(1).choice(n, min(n, queries), replace=False)
    squared = ((vectors[slots, None] - vectors[None]) ** 2).sum(-1)
    squared[np.arange(len(slots)), slots] = np.inf
    reach = np.full(n, -1.0)
    reach[:: max(n // 7, 1)] = 1.1
    cells.reach[cells.place[np.arange(n)]] = reach
    return cells, slots, squared, reach


def pairs(cells: InvertedFile, slots: np.ndarray, radius: float) -> set[tuple[int, int]]:
    known = np.full(len(slots), radius, np.float32)
    query, places, _ = CellSearch(cells, slots, 10, known, len(cells.centers)).run()
    return set(zip(query.tolist(), cells.slots[places].tolist(), strict=True))


@pytest.mark.parametrize("n", [1, 65, 500, 7000])
@pytest.mark.parametrize("queries", [1, 40])
def test_a_search_of_all_cells_finds_near_rows_and_rows_in_reach(n, queries):
    cells, slots, squared, reach = with_reaches(n, queries)
    near = (squared < 0.3) | (squared < reach)
    assert pairs(cells, slots, 0.3) == set(zip(*np.nonzero(near), strict=True))
    for slot in set(range(0, n, 9)) - set(slots):  # the last row of the cell takes its place
        cells.remove(slot)
        near[:, slot] = False
    assert pairs(cells, slots, 0.3) == set(zip(*np.nonzero(near), strict=True))


@pytest.mark.parametrize("n", [1, 20, 65, 5000])
@pytest.mark.parametrize("queries", [1, 70])
@pytest.mark.parametrize("at_a_time", [128, 1 << 14])
def test_exact_search_finds_near_rows_and_rows_in_reach(n, queries, at_a_time, monkeypatch):
    monkeypatch.setattr(searches, "SAMPLE", at_a_time)
    monkeypatch.setattr(searches, "ROWS", at_a_time)
    cells, slots, squared, reach = with_reaches(n, queries)
    search = ExactSearch(cells, slots, 10)
    query, places, found = search.run()
    assert np.allclose(squared[query, cells.slots[places]], found, rtol=1e-5, atol=1e-6)
    required = (squared < np.minimum(search.radius, 1e9)[:, None] * (1 - 1e-5)) | (squared < reach)
    assert set(zip(*np.nonzero(required), strict=True)) <= set(zip(query, cells.slots[places], strict=True))
    assert ((squared <= search.radius[:, None] * (1 + 1e-5)).sum(1) >= min(10, n - 1)).all()
    assert len(set(zip(query, places, strict=True))) == len(query) <= 1.2 * required.sum() + 10 * len(slots)


@pytest.mark.parametrize("m", [7, 1023, 1024, 1700, 5 * 512])
@pytest.mark.parametrize("levels", [3, 50, 10**6])
def test_ranked_equals_sorting(m, levels):
    distances = np.random.default_rng(m).integers(0, levels, (4, m)).astype(np.float32)  # few levels: many ties
    for rank in (0, 5, 127, 128):
        if rank < m:
            assert (searches.select_rank(distances, rank) == np.sort(distances, axis=1)[:, rank]).all()


def test_thousands_of_duplicates_are_capped():
    cells = InvertedFile(20_000, 4)
    cells.build(np.arange(9000), np.ones((9000, 4), np.float32))
    query, _, squared = CellSearch(cells, np.arange(3), 32, np.full(3, np.nan), len(cells.centers)).run()
    assert (squared == 0).all() and 3 * 32 <= len(query) < 9000
