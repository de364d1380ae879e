"""KNN compared with brute force: growth, wrapping, drift of the scale, duplicates, uniform draws, states."""

from typing import Any

import numpy as np
import pytest
import torch
from builders import feed, rows_with, same_state, unwritten_memory_holds

from interreplay import Transitions
from interreplay.neighborhood.knn import KNN
from interreplay.neighborhood.knn_index import inverted_file
from interreplay.neighborhood.knn_index.brute_force import nearest
from interreplay.storage.ring import Storage
from interreplay.storage.state_copies import copy_arrays


def transitions(z: np.ndarray) -> Transitions:
    """Return rows with features `z` ``(n, d)``; the last feature is the action."""
    obs = z[:, :-1].astype(np.float32)
    interleaved = np.arange(len(z)) % 3
    return rows_with(obs=obs, actions=z[:, -1:].astype(np.float32), next_obs=obs + 1, episode=interleaved)


@pytest.fixture
def cells(monkeypatch):
    """Use cells from 6,000 rows on, not from 131,072."""
    monkeypatch.setattr(inverted_file, "EXACT", 6_000)


class World:
    """A storage and a KNN that observes it."""

    def __init__(self, capacity: int, **arguments: Any):
        self.storage, self.knn, self.rng = Storage(capacity), KNN(**arguments), np.random.default_rng(0)

    def add(self, z: np.ndarray, batch: int = 1) -> None:
        for start in range(0, len(z), batch):
            feed(self.knn, self.storage, transitions(z[start : start + batch]))
            if batch == 1 and start % 8 == 0:
                self.knn.neighbor_slots(self.storage, torch.randint(len(self.storage), (16,)), self.rng)

    def distances(self, slots: np.ndarray) -> np.ndarray:
        """Return squared distances ``(n, N)`` by definition, in float64; a row's distance to itself is infinite."""
        z = self.storage.features(torch.arange(len(self.storage))).double().numpy()
        std = z.std(0)
        x = z[:, std > 1e-9] / std[std > 1e-9]
        out = np.stack([((x - x[slot]) ** 2).sum(1) for slot in slots])
        out[np.arange(len(slots)), slots] = np.inf
        return out

    def recall(self, slots: np.ndarray | None = None, sample: int = 200) -> float:
        """Return the share of the k neighbors that are among the k nearest (ties are hits); check identities, too."""
        count = len(self.storage)
        if slots is None:
            slots = np.random.default_rng(1).choice(count, min(sample, count), replace=False)
        k = min(self.knn.k, count - 1)
        near = self.knn.neighbors(self.storage, torch.from_numpy(slots)).numpy()
        assert (near[:, k:] == -1).all()
        near = near[:, :k]
        assert (near >= 0).all() and (near < count).all() and (near != slots[:, None]).all()
        assert all(len(set(row)) == k for row in near.tolist())
        distances = self.distances(slots)
        worst = np.partition(distances, k - 1, axis=1)[:, k - 1 : k]
        return float((np.take_along_axis(distances, near, 1) <= worst * (1 + 1e-4) + 1e-9).mean())


def normal(n: int, d: int = 8, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def walks(n: int, d: int = 8, seed: int = 0) -> np.ndarray:
    """Return correlated rows: three interleaved walks around moving centers."""
    rng = np.random.default_rng(seed)
    state, rows = rng.normal(size=(3, d)), []
    for step in range(n):
        if step % 600 < 3:
            state[step % 3] = 3 * rng.normal(size=d)
        state[step % 3] = 0.97 * state[step % 3] + 0.2 * rng.normal(size=d)
        rows.append(state[step % 3].copy())
    return np.stack(rows)


def test_no_neighbors_then_all_then_the_nearest():
    world = World(100, k=3, draw=None)
    world.add(normal(1))
    found = world.knn.gather(world.storage, torch.tensor([0]), world.rng)
    assert found.slots.tolist() == [[-1, -1, -1]] and found.rows is None
    assert found.stored_slots(torch.tensor([0])).tolist() == [[0, 0, 0]], "the row itself in their place"
    world.add(normal(2, seed=1))
    slots = world.knn.gather(world.storage, torch.tensor([0, 1]), world.rng).slots
    assert [set(row) for row in slots.tolist()] == [{1, 2, -1}, {0, 2, -1}]
    world.add(normal(40, seed=2))
    assert world.recall() == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 64])
def test_recall_with_many_cells(batch, cells):
    world = World(10_000)
    rows = walks(8000, d=6)
    world.add(rows[:7000], 1000)
    world.add(rows[7000:], batch)
    assert len(world.knn.graph.cells.centers) > 50 and world.knn.graph.cells.probes < 50
    assert world.recall() >= 0.96


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capacity", "batch"),
    [(50, 1), (700, 64), (600, 600)],
)
def test_wrapping_the_ring_several_times(capacity, batch):
    world = World(capacity)
    rows = walks(capacity * 7 // 2, seed=3)
    for part in np.array_split(rows, 7):
        world.add(part, batch)
        assert world.recall(sample=100) >= 0.96
        newest = (world.storage.written - 1 - np.arange(min(20, len(world.storage)))) % capacity
        assert world.recall(newest) >= 0.96


@pytest.mark.slow
@pytest.mark.parametrize(("wrapped", "sudden"), [(False, True), (True, False)])
def test_scale_of_one_dimension_triples(wrapped, sudden):
    world = World(2000 if wrapped else 8000)
    world.add(normal(3000 if wrapped else 2000, d=6), 50)
    more = normal(2000 if sudden or wrapped else 1000, d=6, seed=9)
    more[:, 2] *= 6 if sudden else np.linspace(1, 9 if wrapped else 12, len(more))
    std = world.storage.features(torch.arange(len(world.storage))).numpy()[:, 2].std()
    for part in np.array_split(more, 5):
        world.add(part, len(part) if sudden else 4)
        assert world.recall(sample=100) >= 0.96
    assert world.storage.features(torch.arange(len(world.storage))).numpy()[:, 2].std() > 2.9 * std


@pytest.mark.slow
def test_scale_triples_in_a_large_ring(cells):
    world = World(9000)
    world.add(normal(12_000, d=6), 3000)
    more = normal(2000, d=6, seed=9)
    more[:, 2] *= 8
    world.add(more, 2000)
    assert len(world.knn.graph.cells.centers) > 50
    assert world.recall() >= 0.96


@pytest.mark.slow
def test_duplicates_are_neighbors():
    world = World(2000)
    rows = np.repeat(normal(60), 20, axis=0)[np.random.default_rng(0).permutation(1200)]
    world.add(rows[:600], 100)
    world.add(rows[600:])
    assert world.recall() >= 0.99
    twins = world.knn.neighbors(world.storage, torch.arange(50)).numpy()
    assert np.abs(rows[twins] - rows[:50, None]).max() == 0  # nineteen duplicates fill all ten places


@pytest.mark.slow
@pytest.mark.parametrize("value", [0.0, 7.3, -1e6])
def test_constant_dimensions_are_ignored(value):
    world = World(1000)
    rows = normal(500)
    rows[:, 3] = value
    world.add(rows[:400], 100)
    world.add(rows[400:])
    assert world.recall() >= 0.98
    rows = normal(200, seed=4)  # from here on it varies
    rows[:, 3] += value
    world.add(rows)
    assert world.recall() >= 0.97


def test_all_rows_equal():
    world = World(300)
    world.add(np.ones((700, 4)), 30)
    assert world.recall() == 1.0


@pytest.mark.slow
def test_draws_are_uniform_among_the_k_nearest():
    world = World(500, k=10)
    world.add(normal(400))
    anchor = torch.full((40_000,), 17)
    drawn = world.knn.neighbor_slots(world.storage, anchor, world.rng).numpy()[:, 0]
    expected = np.argsort(world.distances(np.array([17]))[0], kind="stable")[:10]
    slots, counts = np.unique(drawn, return_counts=True)
    assert set(slots) == set(expected)
    assert ((counts - 4000) ** 2 / 4000).sum() < 27.9  # chi-squared with 9 degrees of freedom, p = .001


@pytest.mark.slow
def test_several_draws_do_not_repeat_and_are_uniform():
    world = World(500, k=10, draw=4)
    world.add(normal(400))
    drawn = world.knn.neighbor_slots(world.storage, torch.full((20_000,), 5), world.rng).numpy()
    assert all(len(set(row)) == 4 for row in drawn[:500].tolist())
    counts = np.unique(drawn, return_counts=True)[1]
    assert len(counts) == 10 and ((counts - 8000) ** 2 / 8000).sum() < 27.9
    few = World(10, k=5, draw=4)
    few.add(normal(3))
    drawn = few.knn.neighbor_slots(few.storage, torch.tensor([1]), few.rng)[0].tolist()
    assert sorted(drawn) == [-1, -1, 0, 2]


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "exact"), [(1, 200), (333, 1 << 17), (2500, 200)])
def test_a_restored_state_resumes_bit_exactly(rows, exact, monkeypatch):
    monkeypatch.setattr(inverted_file, "EXACT", exact)
    data, more = walks(rows, seed=5), walks(200, seed=6)
    with unwritten_memory_holds(0x11):
        world = World(7000)
        world.add(data, 97)
    state = copy_arrays({"storage": world.storage.state_dict(), "knn": world.knn.state_dict()})
    with unwritten_memory_holds(0x99):
        other = World(7000)
        other.storage.load_state_dict(state["storage"])
        other.knn.load_state_dict(state["knn"])
    for row in np.array_split(more, 50):
        slots = torch.from_numpy(np.random.default_rng(len(world.storage)).integers(0, len(world.storage), 64))
        drawn = []
        for each in (world, other):
            feed(each.knn, each.storage, transitions(row))
            drawn.append(each.knn.neighbor_slots(each.storage, slots, np.random.default_rng(0)))
        assert torch.equal(*drawn)
    same_state(world.knn.state_dict(), other.knn.state_dict())


def test_rows_are_pending_until_one_is_requested():
    world = World(8000)
    world.add(normal(4000), 4000)
    graph = world.knn.graph
    for row in normal(5, seed=1):
        world.add(row[None], 2)
    assert graph.pending == [4000, 4001, 4002, 4003, 4004] and (graph.cells.place[4000:4005] < 0).all()
    world.knn.neighbor_slots(world.storage, torch.arange(4000), world.rng)
    assert len(graph.pending) == 5, "none of them was drawn"
    assert world.recall(np.arange(4000, 4005)) == 1.0 and graph.pending == []
    assert world.recall() >= 0.99


def test_an_overwritten_pending_row_is_inserted_once():
    world = World(1000)
    world.add(normal(999), 999)
    world.add(normal(1, seed=1))
    graph = world.knn.graph
    assert graph.pending == [999]
    world.add(normal(1000, seed=2), 1000)
    assert len(graph.cells.stored) == int(graph.scale.counts[0]) == 1000
    assert world.recall() >= 0.99


def test_rows_that_move_the_scale_are_not_pending():
    world = World(8000)
    world.add(normal(4000), 4000)
    far = np.zeros((2, 8))
    far[1, 3] = 9.5  # its square is 90, and .02 of 4,000 is 80
    world.add(far[:1], 2)
    assert world.knn.graph.pending == [4000] and world.knn.graph.cells.place[4000] < 0
    world.add(far[1:], 2)
    assert (world.knn.graph.cells.place[4000:4002] >= 0).all()


def test_one_cell_becomes_many_and_many_become_one(monkeypatch):
    world, rows = World(10_000), walks(4000, d=5)
    world.add(rows[:2000], 500)
    assert world.knn.graph.cells.whole
    monkeypatch.setattr(inverted_file, "EXACT", 2_500)
    world.add(rows[2000:3000], 100)
    assert not world.knn.graph.cells.whole and world.recall() >= 0.97
    state = copy_arrays({"storage": world.storage.state_dict(), "knn": world.knn.state_dict()})
    monkeypatch.setattr(inverted_file, "EXACT", 1 << 17)  # as in a state with cells for fewer rows
    world = World(10_000)
    world.storage.load_state_dict(state["storage"])
    world.knn.load_state_dict(state["knn"])
    assert not world.knn.graph.cells.whole and world.recall() >= 0.97
    world.add(walks(2000, d=5, seed=1), 100)
    assert world.knn.graph.cells.whole and world.recall() >= 0.97


def test_the_state_shares_memory():
    world = World(100)
    world.add(normal(50))
    graph = world.knn.state_dict()["graph"]
    assert np.shares_memory(graph["table"]["keys"], world.knn.graph.table.keys)
    assert np.shares_memory(graph["cells"]["vectors"], world.knn.graph.cells.vectors)


def test_exact_search_is_brute_force():
    world = World(300)
    rows = normal(450)
    rows[:, 2] = 5.0
    world.add(rows, 50)
    expected = np.argsort(world.distances(np.arange(40)), axis=1, kind="stable")[:, :10]
    assert (nearest(world.storage, torch.arange(40), 10).numpy() == expected).all()
    few = World(300)
    few.add(normal(3))
    assert (nearest(few.storage, torch.arange(3), 5)[:, 2:] == -1).all()


@pytest.mark.slow
@pytest.mark.parametrize(("k", "adds_first", "rows"), [(3, True, 700), (20, False, 700), (40, True, 300)])
def test_a_state_with_another_k_is_indexed_again(k, adds_first, rows):
    """As population-based training changes k; before and after the ring of 500 is full."""
    world, other = World(500, k=10), World(500, k=k)
    world.add(walks(rows), 50)
    other.storage.load_state_dict(world.storage.state_dict())
    other.knn.load_state_dict(world.knn.state_dict())
    if adds_first:
        other.add(walks(60, seed=1), 7)
    assert other.recall() >= 0.99
    other.add(walks(60, seed=2), 7)
    assert other.recall() >= 0.99


def test_rows_that_are_not_indexed_yet_are_saved():
    """A state is loaded with another k, saved before the rows are indexed again, and loaded."""
    world, other, last = World(60, k=4), World(60, k=8), World(60, k=8)
    world.add(normal(40), 40)
    other.knn.load_state_dict(world.knn.state_dict())
    last.storage.load_state_dict(world.storage.state_dict())
    last.knn.load_state_dict(other.knn.state_dict())
    assert last.recall() == 1.0


def test_rows_that_were_not_observed_raise_an_error():
    world = World(100)
    world.add(normal(5))
    world.storage.add(transitions(normal(2)))
    with pytest.raises(RuntimeError, match="7 rows were stored, but fewer observed"):
        world.knn.neighbors(world.storage, torch.tensor([0]))
