"""RandomNeighbor and Successor draw valid partners, and all of them."""

import numpy as np
import pytest
import torch
from builders import Episodes, make, rows_with
from scipy.stats import chisquare

from interreplay import Storage
from interreplay.neighborhood import RandomNeighbor, Successor, simple


def stored(rows: int, capacity: int, **kind) -> Storage:
    storage, episodes = Storage(capacity), Episodes(**kind)
    for _ in range(rows):
        storage.add(episodes.transitions(1))
    return storage


@pytest.mark.parametrize("rows", [2, 3, 10, 25])
def test_every_other_row_has_the_same_probability(rows):
    storage = stored(rows, 10)
    n = min(rows, 10)
    slots = torch.arange(n).repeat(2000)
    neighbors = RandomNeighbor().gather(storage, slots, np.random.default_rng(0))
    found = neighbors.slots
    assert neighbors.rows is None, "the buffer reads them"
    assert found.shape == (len(slots), 1) and (found[:, 0] != slots).all()
    pairs = torch.bincount(slots * n + found[:, 0], minlength=n * n).view(n, n)
    counts = pairs[~torch.eye(n, dtype=torch.bool)].numpy()
    assert len(counts) == 2 or chisquare(counts).pvalue > 1e-4
    assert (counts > 0).all()


def with_choices(choices: np.ndarray) -> Storage:
    """Return a storage whose rows have the given discrete actions."""
    n = len(choices)
    storage = Storage(n)
    obs = np.random.default_rng(0).normal(size=(n + 1, 3)).astype(np.float32)
    storage.add(rows_with(obs=obs[:-1], actions=choices, next_obs=obs[1:], truncated=np.arange(n) % 100 == 99))
    return storage


@pytest.mark.parametrize(("rounds", "block"), [(0, 1_000), (0, 4), (1, 8)])
def test_every_row_with_equal_discrete_values_has_the_same_probability(rounds, block, monkeypatch):
    """Rows are drawn from the list of all rows, from a block, and by rejection."""
    monkeypatch.setattr(simple, "ROUNDS", rounds)
    monkeypatch.setattr(simple, "BLOCK", block)
    choices = np.array([0] * 20 + [1] * 6 + [2] * 3 + [3], np.int64)
    np.random.default_rng(0).shuffle(choices)
    n = len(choices)
    storage, slots, rng = with_choices(choices), torch.arange(n), np.random.default_rng(1)
    counts = np.zeros((n, n), np.int64)
    for _ in range(150):
        found = RandomNeighbor().neighbor_slots(storage, slots, rng)[:, 0].numpy()
        paired = found >= 0
        assert (paired == (choices != 3)).all()
        counts[np.flatnonzero(paired), found[paired]] += 1
    equal = choices[:, None] == choices
    np.fill_diagonal(equal, False)
    assert not counts[~equal].any()
    for value in range(3):
        pairs = counts[np.ix_(choices == value, choices == value)]
        pairs = pairs[~np.eye(len(pairs), dtype=bool)]
        assert chisquare(pairs).pvalue > 1e-4


@pytest.mark.parametrize(("rows", "capacity"), [(40, 100), (333, 100)])
def test_the_successor_is_the_next_step_of_the_episode(rows, capacity):
    """Compared with a list of rows, with three interleaved environments and a ring that was overwritten."""
    given, storage = make(rows, envs=3, gaps=0.1), Storage(capacity)
    for row in range(rows):
        storage.add(given[row : row + 1])
    first = max(0, rows - capacity)
    slots = torch.arange(first, rows) % capacity
    neighbors = Successor().gather(storage, slots, np.random.default_rng(0))
    found = neighbors.slots
    assert neighbors.rows is None, "the buffer reads them"
    for row, slot, partner in zip(range(first, rows), slots.tolist(), found[:, 0].tolist(), strict=True):
        later = [j for j in range(row + 1, rows) if given.episode[j] == given.episode[row]][:1]
        follows = [j for j in later if torch.equal(given.obs[j], given.next_obs[row])]
        assert partner == (follows[0] % capacity if follows else -1)
        assert not (follows and (given.terminated[row] or given.truncated[row]))
        assert partner != slot
    assert (found >= 0).any() and (found < 0).any()
    assert torch.equal(neighbors.stored_slots(slots), torch.where(found >= 0, found, slots[:, None]))
