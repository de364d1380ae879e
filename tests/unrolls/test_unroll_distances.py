"""Distances of unrolls against their definitions, number by number, and what candidates are ranked by."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from interreplay.selection import Attentive, Elite
from interreplay.selection.distance import kl_categorical
from interreplay.selection.elite import pick
from interreplay.unrolls.distances import DistanceToNewest, UnrollDistance, stored_distances
from interreplay.unrolls.replay import UnrollReplay
from interreplay.unrolls.storage.store import UnrollStore
from tests.unrolls.unroll_builders import unrolls

T, B, F = 5, 7, 4


def softmax(logits: list[float]) -> list[float]:
    powers = [math.exp(one) for one in logits]
    return [power / sum(powers) for power in powers]


def naive(kind: str, then: list, now: list, norm: float, gaussian: bool) -> float:
    """Of one unroll, its live steps alone, ``[[F numbers] …]``."""
    if kind == "kl" and gaussian:
        total = 0.0
        for one, other in zip(then, now, strict=True):
            for d in range(F // 2):
                m, s, n, z = one[d], math.exp(one[d + F // 2]), other[d], math.exp(other[d + F // 2])
                total += math.log(z / s) + (s**2 + (m - n) ** 2) / (2 * z**2) - 0.5
        return total / max(1, len(then))
    if kind == "kl":
        pairs = [(softmax(one), softmax(other)) for one, other in zip(then, now, strict=True)]
        return sum(p * math.log(p / q) for ps, qs in pairs for p, q in zip(ps, qs, strict=True)) / max(1, len(then))
    one, other = [x for step in then for x in step], [x for step in now for x in step]
    if kind == "ln":
        return sum(abs(x - y) ** norm for x, y in zip(one, other, strict=True)) ** (1 / norm)
    lengths = math.sqrt(sum(x * x for x in one)) * math.sqrt(sum(y * y for y in other))
    return 1 - sum(x * y for x, y in zip(one, other, strict=True)) / lengths if lengths else 1.0


@pytest.mark.parametrize(
    ("kind", "norm", "gaussian"),
    [("ln", 2, False), ("ln", 1, False), ("ln", 3, True), ("cosine", 2, False), ("kl", 2, False), ("kl", 2, True)],
)
def test_distances_are_as_defined(kind, norm, gaussian):
    rng = np.random.default_rng(0)
    then, now = (torch.from_numpy(rng.normal(size=(T, B, F))) for _ in range(2))
    live = torch.from_numpy(rng.random((T, B)) < 0.7)
    live[:, 2] = False
    found = UnrollDistance(kind, norm, gaussian)(then, now, live)
    for b in range(B):
        steps = [t for t in range(T) if live[t, b]]
        expected = naive(kind, then[steps, b].tolist(), now[steps, b].tolist(), norm, gaussian)
        assert float(found[b]) == pytest.approx(expected, rel=1e-5, abs=1e-6)
    zero = UnrollDistance(kind, norm, gaussian)(then, then, torch.ones(T, B, dtype=torch.bool))
    assert zero.abs().max() < 1e-6


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ValueError, match="distance is 'l2'; expected one of ln, cosine, kl"):
        UnrollDistance("l2")
    with pytest.raises(ValueError, match="norm is 0; expected a number above 0"):
        UnrollDistance("ln", 0)
    with pytest.raises(ValueError, match=r"the policy gives \(5, 7, 3\); expected \(5, 7, 4\)"):
        UnrollDistance()(torch.zeros(T, B, F), torch.zeros(T, B, 3), torch.ones(T, B, dtype=torch.bool))


def test_a_categorical_divergence_is_never_below_zero():
    logits = torch.randn(1_000, 6, generator=torch.Generator().manual_seed(0)) * 10
    assert (kl_categorical(logits, logits + 3.0) >= 0).all()


def filled(count: int = 30, **given) -> tuple[UnrollStore, np.random.Generator]:
    store, rng = UnrollStore(count), np.random.default_rng(0)
    store.add(unrolls(count, outputs=F, **given), rng)
    return store, rng


def test_attentive_compares_with_the_newest_step():
    store, _ = filled()
    everything = torch.arange(30)
    stored = store[everything]
    found = DistanceToNewest(UnrollDistance("ln", 1))(store, everything)
    newest = stored.policy[-1, -1]
    for slot in range(30):
        live = stored.live[:, slot]
        assert float(found[slot]) == pytest.approx(float((stored.policy[live, slot] - newest).abs().sum()), rel=1e-5)


@pytest.mark.parametrize("obs", [(3,), {"a": (3,), "b": (2,)}])
def test_attentive_compares_features_of_observations(obs):
    store, _ = filled(obs=obs)
    everything = torch.arange(30)

    def features(observation):
        return (observation["a"] if isinstance(observation, dict) else observation) * 2

    found = DistanceToNewest(UnrollDistance("ln", 1), features)(store, everything)
    stored = store[everything]
    seen = 2 * (stored.obs["a"] if isinstance(obs, dict) else stored.obs)[:-1]
    newest = seen[-1, -1]
    for slot in range(30):
        live = stored.live[:, slot]
        assert float(found[slot]) == pytest.approx(float((seen[live, slot] - newest).abs().sum()), rel=1e-5)


def test_attentive_draws_the_nearest_of_its_candidates():
    store, rng = filled()
    how_far = DistanceToNewest(UnrollDistance("kl"))
    replay = UnrollReplay(store, Attentive(4.0, distance_fn=how_far))
    candidates = torch.from_numpy(np.random.default_rng(7).integers(0, 30, 20))
    drawn = replay.draw(5, np.random.default_rng(7))
    far = how_far(store, candidates)
    assert drawn.slots.tolist() == candidates[np.argsort(far.numpy(), kind="stable")[:5]].tolist()


def naive_pick(candidates: list[int], far: np.ndarray, replays: np.ndarray, size: int, strategy: int) -> list[int]:
    """The four strategies as `Elite` states them."""
    once = list(dict.fromkeys(candidates))
    ranked = sorted(once, key=lambda slot: far[slot])
    by_replays = sorted(ranked, key=lambda slot: replays[slot])
    u = len(ranked)
    if strategy == 3:
        return [by_replays[i % u] for i in range(size)]
    if strategy == 1 or u <= size:
        return [ranked[i % u] for i in range(size)]
    cuts = [k * u // size for k in range(size + 1)]
    if strategy == 2:
        return [ranked[cut] for cut in cuts[:-1]]
    return [min(ranked[a:b], key=lambda slot: replays[slot]) for a, b in zip(cuts, cuts[1:], strict=False)]


@pytest.mark.parametrize("stored", [1, 2, 6, 40])
@pytest.mark.parametrize("strategy", [1, 2, 3, 4])
def test_elite_draws_by_stored_distances_with_fewer_than_asked_for_too(strategy, stored):
    store = UnrollStore(40)
    replay = UnrollReplay(store, Elite(6.0, strategy=strategy, distance_fn=stored_distances), UnrollDistance())
    rng = np.random.default_rng(0)
    replay.add(unrolls(stored, outputs=F), rng)
    store.notes.record_distances(np.arange(stored), rng.random(stored).astype(np.float32), 0)
    for number in range(6):
        replays, candidates = store.notes.replays.copy(), np.random.default_rng(number).integers(0, stored, 48).tolist()
        far = store.distances(slice(None))
        drawn = replay.draw(8, np.random.default_rng(number))
        assert drawn.slots.tolist() == naive_pick(candidates, far, replays, 8, strategy)
        assert (store.notes.replays - replays).tolist() == np.bincount(drawn.slots.numpy(), minlength=40).tolist()
    assert store.notes.replays.tolist() == replay.selector.replays(torch.arange(40)).tolist()


@pytest.mark.parametrize("strategy", [1, 2, 3, 4])
def test_every_strategy_fills_a_batch_from_any_number_of_candidates(strategy):
    for count in range(1, 12):
        for size in range(1, 12):
            order = pick(torch.arange(count) % 3, size, strategy)
            assert order.shape == (size,) and order.min() >= 0 and order.max() < count
            assert len(set(order.tolist())) == min(count, size)
