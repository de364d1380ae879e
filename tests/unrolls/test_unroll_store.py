"""The store returns what was added, chooses slots as documented, and restores states exactly."""

import numpy as np
import pytest
import torch

from interreplay.unrolls.storage import insertion
from interreplay.unrolls.storage.store import UnrollStore
from interreplay.unrolls.unrolls import TAGS, cat
from tests.unrolls.unroll_builders import same, unrolls

TAGGED = (*TAGS, "fresh")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def versions(store: UnrollStore) -> list[int]:
    return store[torch.arange(len(store))].version.tolist()


PARTS = {"obs": {"state": (3,), "goal": (2, 2)}, "state": {"h": (4,), "c": (4,)}}


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ({"obs": (3,)}, insertion.Fifo),
        (PARTS, insertion.Reservoir),
        ({"obs": (10, 10, 4), "obs_dtype": bool}, insertion.Elite),
        ({"obs": (3,), "obs_dtype": np.float64}, insertion.Fifo),
    ],
)
def test_unrolls_are_returned_exactly(kind, make):
    store, added, draws = UnrollStore(7, make()), {}, rng()
    for start in range(0, 23, 5):
        batch = unrolls(5, seed=start, first=start, **kind)
        slots = store.add(batch, draws)
        assert slots.shape == (5,) and len(set(slots[slots >= 0].tolist())) == int((slots >= 0).sum())
        for number, slot in enumerate(slots.tolist()):
            if slot >= 0:
                added[slot] = batch[number]
    assert len(store) == 7 and sorted(added) == list(range(7))
    slots_read = torch.tensor([6, 0, 3, 3])
    given = store[slots_read]
    assert same(given, cat([added[slot] for slot in slots_read.tolist()]), but=TAGGED)
    assert given.slots.tolist() == slots_read.tolist() and not given.fresh.any()
    assert given.writes.tolist() == store.write_numbers(slots_read).tolist()
    assert torch.equal(store.column("policy", slots_read), given.policy)


def test_a_ring_keeps_the_newest_in_write_order():
    store = UnrollStore(4)
    for start, size, stored in [(0, 3, {0, 1, 2}), (3, 2, {1, 2, 3, 4}), (5, 9, {10, 11, 12, 13})]:
        slots = store.add(unrolls(size, first=start), rng())
        assert set(versions(store)) == stored
        if size < 4:
            assert slots.tolist() == [n % 4 for n in range(start, start + size)]
        newest = (store.written - 1) % 4
        assert versions(store)[newest] == start + size - 1
        assert store.write_numbers(torch.tensor([newest])).item() == store.written - 1


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 6, 60])
def test_a_reservoir_is_a_uniform_sample_of_all_unrolls(size: int):
    """χ² over 600 reservoirs of 5 of 30: each unroll is in a reservoir with probability 1/6."""
    found, draws, runs = np.zeros(30), rng(1), 600

    class Counted:
        capacity, written = 5, 0

        def distances(self, slots):
            return np.zeros(5, np.float32)[slots]

        def __len__(self) -> int:
            return min(self.written, 5)

    for _ in range(runs):
        store, chosen, place = Counted(), insertion.Reservoir(), np.zeros(5, int)
        for start in range(0, 30, size):
            count = min(size, 30 - start)
            slots = chosen.slots(store, count, draws)
            place[slots[slots >= 0]] = np.arange(start, start + count)[slots >= 0]
            store.written += int((slots >= 0).sum())
        found[place] += 1
    assert found.sum() == 5 * runs
    # Without replacement, the variance of a count is p(1 − p)·runs.
    chi = ((found - runs / 6) ** 2 / (runs / 6 * (1 - 1 / 6))).sum() * 29 / 30
    assert chi < 58.3  # 99.9 % of χ² with 29 degrees of freedom


def test_elite_insertion_replaces_the_furthest_candidate():
    """Compared with the definition, one unroll after the other."""
    store, draws, again = UnrollStore(12, insertion.Elite(4)), rng(3), rng(3)
    store.add(unrolls(12), draws)
    far = rng(4).random(12).astype(np.float32)
    store.record_distances(np.arange(12), far)
    slots = store.add(unrolls(3, first=12), draws)
    expected = []
    for drawn in again.integers(0, 12, (3, 4)).tolist():
        expected.append(max(drawn, key=lambda slot: (far[slot], -drawn.index(slot))))
        far[expected[-1]] = -1
    assert slots.tolist() == expected and store.notes["distance"][expected].tolist() == [0, 0, 0]
    assert set(versions(store)) == set(range(15)) - set(expected)


def test_metadata_of_a_slot_is_reset_by_a_new_unroll():
    store = UnrollStore(3)
    store.add(unrolls(3), rng())
    store.clock = 5
    store.record_distances(np.arange(3), np.ones(3, np.float32))
    store.notes["replays"][:] = 2
    store.add(unrolls(1, first=3), rng())
    assert store.notes["distance"].tolist() == [0, 1, 1] and store.notes["replays"].tolist() == [0, 2, 2]
    assert store.notes["seen_at"].tolist() == [5, 5, 5] and store.notes["write"].tolist() == [3, 1, 2]


def test_distances_are_extrapolated_by_their_growth():
    """If all distances grow by .5 per draw, measuring some of them is enough."""
    store, draws = UnrollStore(50), rng()
    store.add(unrolls(50), draws)
    assert store.distances(slice(None)).tolist() == [0] * 50
    for clock in range(1, 40):
        store.clock = clock
        seen = draws.choice(50, 5, replace=False)
        store.record_distances(seen, np.full(5, 0.5 * clock, np.float32))
    assert np.allclose(store.distances(np.arange(50)), 0.5 * 39) and store.growth == pytest.approx(0.5)
    store.clock = 40
    store.record_distances(np.arange(50), np.zeros(50, np.float32))
    assert store.growth == 0 and (store.distances(slice(None)) == 0).all()  # growth is never negative


def test_unrolls_with_other_columns_are_rejected():
    for other, message in (
        ({"steps": 5}, r"actions of the unrolls is \(\(5,\), torch.int64\); expected \(\(4,\), torch.int64\)"),
        ({"obs": (4,)}, r"obs of the unrolls is \(\(5, 4\), torch.float32\); expected \(\(5, 3\), torch.float32\)"),
        ({"obs_dtype": np.float64}, "obs of the unrolls is .*float64.; expected .*float32"),
        ({"state": {"h": (2,)}}, r"state.h of the unrolls is .*; expected no such column"),
    ):
        store = UnrollStore(5)
        store.add(unrolls(2), rng())
        with pytest.raises(ValueError, match=message):
            store.add(unrolls(2, **other), rng())
        assert len(store) == store.offered == 2


def test_a_state_of_another_capacity_is_rejected():
    small, large = UnrollStore(2), UnrollStore(3)
    with pytest.raises(ValueError, match="the state has 2 slots for unrolls; expected 3"):
        large.load_state_dict(small.state_view())


def test_the_newest_step_is_known_even_if_it_is_not_stored():
    store, batch = UnrollStore(2, insertion.Reservoir()), unrolls(400, obs={"a": (3,), "b": (2,)})
    batch.live[-2:, -1] = torch.tensor([True, False])  # a step that only resets has no output of the policy
    slots = store.add(batch, rng())
    assert int((slots >= 0).sum()) == 2 and slots[-1] == -1
    policy, obs = store.newest()
    assert torch.equal(policy, batch.policy[-2, -1:]) and torch.equal(obs["a"], batch.obs["a"][-3, -1:])


def test_memory_is_estimated_exactly():
    store, batch = UnrollStore(100), unrolls(10, obs=(10, 10, 4), obs_dtype=bool, steps=20)
    expected = store.estimate(batch)
    assert len(store) == 0
    for _ in range(10):
        store.add(batch, rng())
    assert store.nbytes == expected
    stored = batch.map(lambda column: column).nbytes - 10 * (3 * 8 + 4 + 1)
    assert 10 * stored <= store.nbytes <= 10 * stored * 1.01 + 100 * 24 + 100 * 8
