"""Cells and their search against brute force, with rows that come and go."""

from __future__ import annotations

import numpy as np
import pytest

from interreplay.neighborhood.knn_index.cell_search import Search
from interreplay.neighborhood.knn_index.inverted_file import InvertedFile


def filled(n: int, d: int = 5, seed: int = 0) -> tuple[InvertedFile, np.ndarray]:
    vectors = np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)
    cells = InvertedFile(2 * n, d)
    cells.build(np.arange(n), vectors)
    return cells, vectors


def pairs(cells: InvertedFile, slots: np.ndarray, radius: float) -> set[tuple[int, int]]:
    known = np.full(len(slots), radius, np.float32)
    query, places, _ = Search(cells, slots, 10, known, len(cells.centers)).run()
    return set(zip(query.tolist(), cells.slots[places].tolist(), strict=True))


@pytest.mark.parametrize("n", [1, 65, 500, 7000])
@pytest.mark.parametrize("queries", [1, 40])
def test_a_search_of_all_cells_finds_what_is_near_and_in_whose_reach_it_lies(n, queries):
    cells, vectors = filled(n)
    slots = np.random.default_rng(1).choice(n, min(n, queries), replace=False)
    far = np.arange(n)[:: max(n // 7, 1)]
    cells.reach[cells.place[far]] = 1.1
    squared = ((vectors[slots, None] - vectors[None]) ** 2).sum(-1)
    reach = np.full(n, -1.0)
    reach[far] = 1.1
    near = (squared < 0.3) | (squared < reach)
    near[np.arange(len(slots)), slots] = False
    assert pairs(cells, slots, 0.3) == set(zip(*(axis.tolist() for axis in np.nonzero(near)), strict=True))


def test_rows_come_and_go():
    cells, vectors = filled(7000, d=3)
    rng, stored = np.random.default_rng(0), dict(enumerate(vectors))
    for slot in rng.permutation(14_000)[:9000].tolist():
        if slot in stored:
            cells.remove(slot)
            del stored[slot]
        else:
            stored[slot] = rng.normal(size=3).astype(np.float32)
            cells.insert(slot, stored[slot])
    names = np.array(sorted(stored))
    assert (cells.stored == names).all() and cells.counts.sum() == len(stored)
    assert (cells.rows(names) == np.stack([stored[name] for name in names.tolist()])).all()
    truth = ((cells.rows(names[:20])[:, None] - cells.rows(names)[None]) ** 2).sum(-1) < 0.05
    truth[np.arange(20), np.arange(20)] = False
    row, column = np.nonzero(truth)
    assert pairs(cells, names[:20], 0.05) == set(zip(row.tolist(), names[column].tolist(), strict=True))


def test_the_probes_chosen_find_the_wished_share():
    cells, vectors = filled(8000, d=6)
    assert 1 < cells.probes < len(cells.centers) / 2
    slots = np.arange(300)
    squared = ((vectors[slots, None] - vectors[None]) ** 2).sum(-1)
    squared[slots, slots] = np.inf
    tenth = np.sort(squared, axis=1)[:, 9].astype(np.float32)
    query, _, found = Search(cells, slots, 10, tenth * np.float32(1 + 1e-5), cells.probes).run()
    assert 0.97 * 3000 <= len(query) <= 3000


def test_a_radius_is_never_too_small():
    cells, vectors = filled(7000)
    search = Search(cells, np.arange(50), 32, np.full(50, np.nan), 3)
    truth = np.sort(((vectors[:50, None] - vectors[None]) ** 2).sum(-1), axis=1)[:, 32]
    assert (search.radius >= truth * (1 - 1e-5)).all()


def test_thousands_of_duplicates_are_capped():
    cells = InvertedFile(20_000, 4)
    cells.build(np.arange(9000), np.ones((9000, 4), np.float32))
    query, _, squared = Search(cells, np.arange(3), 32, np.full(3, np.nan), len(cells.centers)).run()
    assert (squared == 0).all() and 3 * 32 <= len(query) < 9000


def test_a_state_is_what_it_was():
    cells, _ = filled(7000)
    for slot in range(0, 3000, 2):
        cells.remove(slot)
    other = InvertedFile(14_000, 5)
    other.load_state_dict(cells.state_dict())
    for each in (cells, other):
        for slot in range(7000, 7600):
            each.insert(slot, np.full(5, slot / 7000, np.float32))
    assert (cells.place == other.place).all() and (cells.pages == other.pages).all() and cells.spare == other.spare
    assert (cells.rows(cells.stored) == other.rows(other.stored)).all()
