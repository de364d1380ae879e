"""The row table: columns of all kinds in one contiguous run of bytes per row."""

import pickle

import numpy as np
import pytest
import torch

from interreplay.storage.row_table import RowTable

KINDS = [torch.bool, torch.uint8, torch.int32, torch.float32, torch.float64, torch.int64]


def columns(order: list[int]) -> dict:
    shapes = [(), (3,), (2, 2)]
    return {f"c{i}": (shapes[i % 3], KINDS[i]) for i in order}


def values(of: dict, n: int) -> dict:
    made = torch.Generator().manual_seed(0)
    return {
        name: torch.randint(0, 2 if t == torch.bool else 100, (n, *shape), generator=made).to(t)
        for name, (shape, t) in of.items()
    }


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [3, 0, 5, 1], [1], [0]])
def test_columns_of_all_kinds_and_orders(order):
    kinds = columns(order)
    records, given = RowTable(20, kinds), values(kinds, 20)
    records.write(0, {name: column[:12] for name, column in given.items()})
    records.scatter(torch.arange(19, 11, -1), {name: column[12:].flip(0) for name, column in given.items()})
    index = torch.tensor([7, 0, 19, 7])
    found = records.take(index, kinds)
    for name, column in given.items():
        assert found[name].dtype == column.dtype
        assert torch.equal(records.column(name), column)
        assert torch.equal(found[name], column[index])


def test_growing_keeps_rows():
    kinds = columns([3, 4])
    records, given = RowTable(5, kinds), values(kinds, 5)
    records.write(0, given)
    records.grow(9)
    assert len(records) == 9
    assert all(torch.equal(records.column(name)[:5], column) for name, column in given.items())


def test_rows_are_padded_to_their_widest_word_only():
    assert RowTable(1, {"a": ((3,), torch.uint8)}).width == 3
    assert RowTable(1, {"a": ((), torch.uint8), "b": ((), torch.float64)}).width == 16


@pytest.mark.parametrize("names", [("a",), ("a", "b"), ("b", "c"), ("a", "d"), ("c", "a"), ("a", "b", "c")])
def test_flat_columns(names):
    """Adjacent columns of one dtype, others, and another order than in memory; also after growing and pickling."""
    columns = {"e": ((), torch.int64), "a": ((3,), torch.float32), "b": ((2, 2), torch.float32)}
    columns |= {"c": ((), torch.float64), "d": ((), torch.float32)}
    records, rng = RowTable(10, columns), np.random.default_rng(0)
    index = np.array([4, 0, 9, 4])

    def check(records):
        taken = records.take(torch.from_numpy(index), names).values()
        expected = np.concatenate([column.numpy().reshape(4, -1) for column in taken], axis=1)
        found = records.flat(index, names)
        assert found.dtype == expected.dtype and np.array_equal(found, expected)
        found[:] = -1
        assert not (records.column(names[0]).numpy()[index] == -1).any()
        assert records.flat(index[:0], names).shape == (0, expected.shape[1])

    for _ in range(2):
        values = {name: torch.from_numpy(rng.normal(size=(10, *shape))).to(dt) for name, (shape, dt) in columns.items()}
        records.write(0, values)
        check(records)
    records.grow(25)
    check(records)
    check(pickle.loads(pickle.dumps(records)))
