"""Elite draws by stored distances agree with draws for which every candidate is measured."""

import math

import numpy as np
import pytest
import torch

from benchmarks.speed import unroll_distances
from benchmarks.speed.unroll_distances import agreement
from interreplay.unrolls.distances import UnrollDistance
from interreplay.unrolls.storage.store import UnrollStore
from interreplay.unrolls.unrolls import Unrolls
from tests.unrolls.unroll_builders import unrolls


def test_agreement_of_exact_and_reversed_distances():
    store = UnrollStore(40)
    store.add(unrolls(40, outputs=4), np.random.default_rng(0))
    everything = store[torch.arange(40)]
    shift = torch.randn(everything.policy.shape, generator=torch.Generator().manual_seed(0))

    def policy(some: Unrolls) -> torch.Tensor:
        return some.policy + shift[:, some.slots]

    distance = UnrollDistance()

    def measure() -> unroll_distances.Agreement:
        return agreement(store, policy, distance, 8, multiplier=4.0, strategy=1, rng=np.random.default_rng(1))

    assert math.isnan(measure().rank_correlation)  # all stored distances are 0
    exact = distance(everything.policy, policy(everything), everything.live).numpy()
    candidates = len(np.unique(np.random.default_rng(1).integers(0, 40, 32)))
    for sign, rank, overlap in [(1, 1, 1), (-1, -1, 0)]:
        store.record_distances(np.arange(40), sign * exact)
        found = measure()
        assert found.rank_correlation == pytest.approx(rank) and found.overlap == overlap
        assert found.distance_recomputed < found.distance_uniform
        assert found.by_chance == pytest.approx(8 / candidates)


@pytest.mark.slow
def test_stored_distances_pick_nearly_the_same_unrolls_because_their_growth_is_extrapolated():
    for strategy in (1, 3):
        found = unroll_distances.run(400, growth=True, updates=200, strategy=strategy, refresh=4)
        assert found.rank_correlation > 0.75 and found.overlap > 3 * found.by_chance, strategy
        range_of_means = found.distance_uniform - found.distance_recomputed
        assert found.distance - found.distance_recomputed < 0.1 * range_of_means, strategy
    with_growth = unroll_distances.run(400, growth=True, updates=200, strategy=1, refresh=4)
    without = unroll_distances.run(400, growth=False, updates=200, strategy=1, refresh=4)
    assert with_growth.rank_correlation > without.rank_correlation + 0.15
    assert with_growth.overlap > without.overlap
