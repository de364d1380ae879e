"""`NeighborLists` compared with distances by definition: growth, full rings, drift of the scale."""

import numpy as np
import pytest
import torch

from interreplay.neighborhood.knn_index import neighbor_lists
from interreplay.neighborhood.knn_index.neighbor_lists import NeighborLists, smallest, standardization

CPU = torch.device("cpu")


class Ring:
    """Features in a ring, and their lists."""

    def __init__(self, capacity: int, dims: int, k: int):
        self.features = torch.zeros(capacity, dims)
        self.lists = NeighborLists(capacity, dims, k, CPU)
        self.written = 0

    def add(self, rows: torch.Tensor, batch: int) -> None:
        for part in rows.split(batch):
            start = self.written % len(self.features)
            slots = (start + torch.arange(len(part))) % len(self.features)
            self.features[slots] = part
            self.lists.replace(self.features, start, len(part))
            self.written += len(part)

    @property
    def count(self) -> int:
        return min(self.written, len(self.features))

    def distances(self) -> torch.Tensor:
        """Return squared distances ``(N, N)`` of all rows in the lists' scale, float64; infinite on the diagonal."""
        std = torch.from_numpy(self.lists._std)
        z = self.features[: self.count].double()[:, std > 0] / std[std > 0]
        squared = (z[:, None] - z).square().sum(-1)
        return squared.fill_diagonal_(torch.inf)

    def check(self, in_one_scale: bool = False) -> None:
        """Each list begins with the k nearest rows; in one scale, it is exactly the rows within its reach."""
        exact = self.distances()
        lists = self.lists
        for slot in range(self.count):
            number = int((lists.slots[slot] >= 0).sum())
            members = lists.slots[slot, :number].long()
            assert number >= min(lists.k, self.count - 1)
            assert lists.number[slot] == min(number, lists.k)
            assert (lists.slots[slot, number:] == -1).all() and lists.squared[slot, number:].isinf().all()
            assert len(set(members.tolist())) == number
            found = exact[slot, members]
            torch.testing.assert_close(lists.squared[slot, :number].double(), found, rtol=1e-4, atol=1e-4)
            nearest = exact[slot].sort().values
            torch.testing.assert_close(found[: lists.k], nearest[: min(number, lists.k)], rtol=1e-4, atol=1e-4)
            if in_one_scale:
                within = exact[slot] < float(lists.reach[slot]) - 1e-4
                assert set(within.nonzero()[:, 0].tolist()) <= set(members.tolist())


def random_rows(count: int, dims: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, dims, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("in_one_scale", [False, True])
@pytest.mark.parametrize("batch", [1, 7, 50])
def test_lists_are_exact_while_the_ring_grows_and_after_it_is_full(batch, in_one_scale, monkeypatch):
    monkeypatch.setattr(neighbor_lists, "COMPARED", 64)
    monkeypatch.setattr(neighbor_lists, "SEARCHED", 16)
    ring = Ring(110, 4, k=3)
    rows = random_rows(250, 4)
    ring.add(rows[:50], 50)
    if in_one_scale:
        monkeypatch.setattr(neighbor_lists, "RANK_DRIFT", 10.0)
        monkeypatch.setattr(neighbor_lists, "SEARCH_DRIFT", 10.0)
    for start in range(50, 250, 50):
        ring.add(rows[start : start + 50], batch)
        ring.check(in_one_scale)


def test_rows_that_lose_their_neighbors_are_searched_again():
    """A cluster is replaced by rows elsewhere, so that its remaining rows keep fewer than k neighbors."""
    ring = Ring(120, 3, k=5)
    near = random_rows(60, 3) * 0.1
    far = random_rows(120, 3, seed=1) + torch.tensor([1.0, 0.0, 0.0])
    ring.add(torch.cat([near, far[:60]]), 20)
    searched = []
    search = ring.lists._search
    ring.lists._search = lambda queries, enter=False: (searched.append((len(queries), enter)), search(queries, enter))
    ring.add(far[60:115], 5)
    ring.check()
    assert any(not enter for _, enter in searched)


def test_scales_drift_and_constant_features_begin_to_vary():
    ring = Ring(300, 3, k=3)
    rows = random_rows(300, 3)
    rows[:100, 2] = 7.0
    rows[200:] *= 5
    for start in range(0, 300, 20):
        ring.add(rows[start : start + 20], 20)
    assert ring.lists._std[2] > 0
    mean, std = standardization(ring.features[: ring.count])
    assert neighbor_lists.drift(std, ring.lists._std) <= neighbor_lists.RANK_DRIFT
    ring.check()


@pytest.mark.parametrize("width", [5, 200, 3 * neighbor_lists.BLOCK * 8 + 3])
def test_the_smallest_numbers_are_found(width):
    numbers = random_rows(6, width)
    numbers[2] = 1.0
    numbers[3, 5:] = torch.inf
    values, columns = smallest(numbers.clone(), 4)
    expected = numbers.sort(dim=1).values[:, :4]
    assert torch.equal(values, expected)
    assert torch.equal(numbers.gather(1, columns), expected)
    assert all(len(set(line)) == 4 for line in columns.tolist())


def test_constants_have_no_deviation():
    mean, std = standardization(torch.tensor([[0.1, 1.0], [0.1, 3.0]]))
    assert std[0] == 0 and std[1] == 1
    np.testing.assert_allclose(mean, [0.1, 2.0], rtol=1e-6)
