"""The neighbor table: write numbers beyond 32 bits, and every offer is considered."""

import numpy as np

from interreplay.neighborhood.knn_index.neighbor_table import EMPTY, NeighborTable, group_keys, pack


def table(written: int, capacity: int = 10, width: int = 4) -> NeighborTable:
    table = NeighborTable(capacity, width)
    table.written = written
    table.clear(np.arange(capacity))
    return table


def keys(*pairs: tuple[float, int]) -> np.ndarray:
    squared, writes = np.array(pairs).T
    return pack(squared, writes.astype(np.int64))[None]


def test_write_numbers_beyond_32_bits():
    t = table(written=2**33 + 5)
    newest = t.written - 1
    kept = t.merge(np.array([0]), keys((1.0, newest), (2.0, newest - 9), (3.0, newest - 10)))
    assert t.live(kept).tolist() == [[True, True, False, False]]
    assert t.unpack_slots(kept[:, :2]).tolist() == [[newest % 10, (newest - 9) % 10]]
    assert not table(written=2**32).live(np.full((1, 4), EMPTY)).any()


def test_every_offer_is_in_a_line():
    rng = np.random.default_rng(0)
    groups, offers = rng.integers(0, 20, 500), rng.integers(0, 2**60, 500).astype(np.uint64)
    names, turns, lines = group_keys(groups, offers, 8)
    assert lines.shape[1] == 8 and (np.diff(turns) >= 0).all()
    for turn in range(turns.max() + 1):
        assert len(np.unique(names[turns == turn])) == (turns == turn).sum()
    for group in range(20):
        placed = lines[names == group]
        assert sorted(placed[placed != EMPTY]) == sorted(offers[groups == group])
    assert all(len(part) == 0 for part in group_keys(np.empty(0, np.int64), np.empty(0, np.uint64), 8))
