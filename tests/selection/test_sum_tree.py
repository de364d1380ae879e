"""The sum tree compared with a plain array."""

import numpy as np
import pytest
import torch

from interreplay.selection import sum_tree
from interreplay.selection.sum_tree import SumTree


def shares(n: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy((np.arange(n) + np.random.default_rng(seed).random(n)) / n)


@pytest.fixture(params=[1, 300, 8192], ids=lambda top: f"top {top}", autouse=True)
def _top(request, monkeypatch):
    """Trees with many levels even for few leaves."""
    monkeypatch.setattr(sum_tree, "TOP", request.param)


@pytest.mark.slow
def test_leaves_sums_and_draws_equal_those_of_a_plain_array():
    for size in (1, 2, 15, 16, 17, 255, 256, 257, 5000):
        rng, tree, naive = np.random.default_rng(size), SumTree(size), np.zeros(size)
        for step in range(20):
            index = rng.choice(size, rng.integers(1, min(size, 40) + 1), replace=False)
            values = rng.random(len(index)) * rng.choice([1e-3, 1.0, 1e3])
            values[rng.random(len(index)) < 0.2] = 0.0
            values[0] = 1.0
            naive[index] = values
            tree.set(torch.from_numpy(index), torch.from_numpy(values))
            assert np.array_equal(tree.leaves.numpy(), naive)
            assert float(tree.total()) == pytest.approx(naive.sum(), rel=1e-12)
            found, probabilities = tree.find(shares(64, step))
            expected = np.searchsorted(naive.cumsum(), shares(64, step).numpy() * naive.sum(), side="right")
            # rounding may move a draw at the border of two leaves
            assert (found.numpy() == expected).mean() > 0.95
            assert (naive[found.numpy()] > 0).all()
            assert probabilities.numpy() == pytest.approx(naive[found.numpy()] / naive.sum(), rel=1e-12)


def test_a_draw_on_a_border_belongs_to_the_next_leaf():
    tree = SumTree(1024)
    tree.set(torch.arange(1024), (torch.arange(1024) % 2 == 0).double())  # every other leaf is zero
    borders = torch.arange(512, dtype=torch.float64) / 512
    assert tree.find(borders)[0].tolist() == list(range(0, 1024, 2))


def test_leaves_of_zero_are_never_found():
    tree = SumTree(1000)
    tree.set(torch.tensor([3, 500, 997]), torch.tensor([1e-9, 1.0, 1e-9]))
    edges = torch.tensor([0.0, 1e-12, 0.5, 1 - 1e-12, np.nextafter(1.0, 0.0)], dtype=torch.float64)
    assert set(tree.find(edges)[0].tolist()) <= {3, 500, 997}
    tree.set(torch.tensor([3, 500]), torch.tensor([0.0, 0.0]))
    assert set(tree.find(edges)[0].tolist()) == {997}


def test_sums_do_not_drift():
    tree, rng = SumTree(3000), np.random.default_rng(0)
    for _ in range(1000):
        tree.set(torch.from_numpy(rng.integers(0, 3000, 1)), torch.from_numpy(rng.random(1) * 1e6))
    tree.set(torch.arange(3000), torch.full((3000,), 1e-3, dtype=torch.float64))
    assert float(tree.total()) == pytest.approx(3.0, rel=1e-12)
