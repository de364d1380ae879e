"""The neighbor table: write numbers beyond 32 bits, and every offer is considered."""

import numpy as np

from interreplay.neighborhood.knn_index.neighbor_table import EMPTY, NeighborTable, pack


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
