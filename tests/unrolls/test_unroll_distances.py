"""Distances of unrolls compared with their definitions, and the ranking of candidates."""

import math

import numpy as np
import pytest
import torch

from interreplay.selection import Elite
from interreplay.unrolls.distances import DistanceToNewest, UnrollDistance, stored_distances
from interreplay.unrolls.replay import UnrollReplay
from interreplay.unrolls.storage.store import UnrollStore
from tests.unrolls.unroll_builders import unrolls

T, B, F = 5, 7, 4


def softmax(logits: list[float]) -> list[float]:
    powers = [math.exp(one) for one in logits]
    return [power / sum(powers) for power in powers]


def naive(kind: str, then: list, now: list, norm: float, gaussian: bool) -> float:
    """Distance of the live steps of one unroll, ``[[F numbers] …]``."""
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
        return (sum(abs(x - y) ** norm for x, y in zip(one, other, strict=True)) / max(1, len(then))) ** (1 / norm)
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


def test_invalid_distances_are_rejected():
    with pytest.raises(ValueError, match="distance is 'l2'; expected one of ln, cosine, kl"):
        UnrollDistance("l2")
    with pytest.raises(ValueError, match="norm is 0; expected a number above 0"):
        UnrollDistance("ln", 0)


def test_a_categorical_divergence_is_never_negative():
    logits = torch.randn(1, 1_000, 6, generator=torch.Generator().manual_seed(0)) * 10
    live = torch.ones(logits.shape[:2], dtype=torch.bool)
    assert (UnrollDistance()(logits, logits + 3.0, live) >= 0).all()


def test_attentive_compares_outputs_or_features_with_the_newest_step():
    everything = torch.arange(30)
    for obs, features in (
        ((3,), None),
        ((3,), lambda observation: observation * 2),
        ({"a": (3,), "b": (2,)}, lambda observation: observation["a"] * 2),
    ):
        store = UnrollStore(30)
        store.add(unrolls(30, outputs=F, obs=obs), np.random.default_rng(0))
        found = DistanceToNewest(UnrollDistance("ln", 1), features)(store, everything)
        stored = store[everything]
        if features is None:
            compared = stored.policy
        else:
            compared = 2 * (stored.obs["a"] if isinstance(obs, dict) else stored.obs)[:-1]
        for slot in range(30):
            live = stored.live[:, slot]
            expected = float((compared[live, slot] - compared[-1, -1]).abs().sum(dim=-1).mean())
            assert float(found[slot]) == pytest.approx(expected, rel=1e-5)


def test_elite_ranks_candidates_by_stored_distances_and_counts_draws():
    store, rng = UnrollStore(30), np.random.default_rng(0)
    replay = UnrollReplay(store, Elite(6.0, strategy=1, distance_fn=stored_distances), UnrollDistance())
    replay.add(unrolls(30, outputs=F), rng)
    store.record_distances(np.arange(30), rng.random(30).astype(np.float32))
    candidates = np.unique(np.random.default_rng(7).integers(0, 30, 48))
    nearest = candidates[store.distances(candidates).argsort()[:8]]
    assert replay.draw(8, np.random.default_rng(7)).slots.tolist() == nearest.tolist()
    assert store.notes["replays"].tolist() == np.bincount(nearest, minlength=30).tolist()
