"""Replay of unrolls: uniform and prioritized draws, and distances from the policy."""

import numpy as np
import pytest
import torch

from interreplay.selection import Combined, Elite, Online, Prioritized, Uniform
from interreplay.unrolls.distances import UnrollDistance, stored_distances
from interreplay.unrolls.replay import UnrollReplay
from interreplay.unrolls.storage import insertion
from interreplay.unrolls.storage.store import UnrollStore
from tests.unrolls.unroll_builders import same, unrolls


def make(kind: str, capacity: int = 12) -> UnrollReplay:
    """Return a replay that measures distances, for its draws ("elite") or for its insertion ("elite insertion")."""
    if kind == "elite":
        return UnrollReplay(UnrollStore(capacity), Elite(distance_fn=stored_distances), UnrollDistance(), refresh=2)
    return UnrollReplay(UnrollStore(capacity, insertion.Elite(4)), Uniform(), UnrollDistance(), refresh=2)


def test_prioritized_draws_follow_errors():
    """P(i) ∝ (|δ| + ε)^α, with importance weights."""
    replay, rng = UnrollReplay(UnrollStore(10), Prioritized(alpha=1.0, beta=1.0)), np.random.default_rng(0)
    replay.add(unrolls(10, steps=1), rng)
    everything = replay.store[torch.arange(10)]
    replay.update(everything, slice(None), None, torch.arange(1.0, 11.0))
    found = np.zeros(10)
    for _ in range(200):
        drawn = replay.draw(55, rng)
        found += np.bincount(drawn.slots.numpy(), minlength=10)
        expected = 1.0 / (drawn.slots + 1.0)
        assert torch.allclose(drawn.weights, expected / expected.max(), rtol=1e-4)
    assert np.allclose(found / found.sum(), np.arange(1, 11) / 55, atol=0.005)


@pytest.mark.parametrize("kind", ["elite", "elite insertion"])
def test_an_update_records_the_distances_of_drawn_unrolls(kind):
    replay, rng = make(kind), np.random.default_rng(0)
    replay.add(unrolls(12), rng)
    drawn = replay.draw(5, rng)
    policy = drawn.policy + torch.randn(drawn.policy.shape, generator=torch.Generator().manual_seed(0))
    replay.update(drawn, slice(None), policy)
    expected = UnrollDistance()(drawn.policy, policy, drawn.live)
    far = dict.fromkeys(range(12), 0.0) | dict(zip(drawn.slots.tolist(), expected.tolist(), strict=True))
    assert replay.store.notes["distance"].tolist() == [far[slot] for slot in range(12)]
    dated = [int(slot in drawn.slots) for slot in range(12)]
    assert replay.store.notes["seen_at"].tolist() == dated
    numbers = replay.statistics()
    # The distances of the others are extrapolated by the growth of the drawn ones.
    others = (12 - sum(dated)) * float(expected.mean())
    assert numbers["stored_distance"] == pytest.approx((sum(far.values()) + others) / 12, rel=1e-5)
    assert numbers["distance_age"] == pytest.approx(1 - np.mean(dated))


def test_updates_of_replaced_unrolls_are_ignored():
    replay, rng = make("elite", capacity=4), np.random.default_rng(0)
    replay.add(unrolls(4), rng)
    batch = replay.store[torch.arange(4)]
    replay.add(unrolls(2, first=4), rng)
    policy = 1.5 * batch.policy
    replay.update(batch, slice(None), policy)
    measured = UnrollDistance()(batch.policy, policy, batch.live).tolist()
    assert min(measured) > 0 and replay.store.notes["distance"].tolist() == [0, 0, *measured[2:]]
    prioritized = UnrollReplay(UnrollStore(4), Prioritized())
    prioritized.add(unrolls(4), rng)
    batch = prioritized.store[torch.arange(4)]
    prioritized.add(unrolls(1, first=4), rng)
    prioritized.update(batch, slice(None), None, torch.full((4,), 9.0))
    assert prioritized.selector.priorities(torch.arange(4)).round().tolist() == [1, 9, 9, 9]


def test_some_unrolls_are_refreshed_with_each_batch():
    replay, rng = make("elite"), np.random.default_rng(0)
    assert replay.to_refresh(rng) is None
    replay.add(unrolls(12), rng)
    found, returned = np.zeros(12), []
    for _ in range(300):
        again = replay.to_refresh(rng)
        returned.append(again is not None)
        if again is not None:
            assert again.size == 8 and same(again, replay.store[again.slots])
            found += np.bincount(again.slots.numpy(), minlength=12)
        replay.draw(1, rng)
    assert returned == [bool(number) and number % 4 == 0 for number in range(300)]  # for four batches at once, 2 each
    assert ((found - 74 * 8 / 12) ** 2 / (74 * 8 / 12)).sum() < 31.3  # 99.9 % of χ² with 11 degrees of freedom
    assert replay.drawn == 300 and UnrollReplay(UnrollStore(12)).to_refresh(rng) is None
    restored = make("elite")
    restored.load_state_dict(replay.state_view())
    assert restored.to_refresh(np.random.default_rng(0)) is not None
    assert replay.to_refresh(rng) is not None and replay.to_refresh(rng) is None, "batches without its unrolls"


def test_fill_in():
    rng = np.random.default_rng(0)
    replay = UnrollReplay(UnrollStore(20), fill_in=0.5)
    for stored, given in [(0, False), (9, False), (10, True), (20, True)]:
        replay.add(unrolls(stored - len(replay)), rng) if stored > len(replay) else None
        assert replay.can_provide(3) is given
    assert replay.can_provide(20) and replay.can_provide(50)  # its capacity
    early = UnrollReplay(UnrollStore(20))
    assert not early.can_provide(0)
    early.add(unrolls(5), rng)
    assert early.can_provide(5) and not early.can_provide(6)


@pytest.mark.parametrize("selector", [Online(), Combined()])
def test_selectors_by_write_order_require_a_ring(selector):
    with pytest.raises(ValueError, match=f"{type(selector).__name__} finds unrolls by write order; expected .* Fifo"):
        UnrollReplay(UnrollStore(3, insertion.Reservoir()), selector)
    replay, rng = UnrollReplay(UnrollStore(3), selector), np.random.default_rng(0)
    replay.add(unrolls(4), rng)
    assert 3 in replay.draw(2, rng).version
