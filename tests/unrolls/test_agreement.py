"""Elite by stored distances picks what it would pick if every candidate were measured anew, as a rule."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import torch

from interreplay.unrolls.agreement import Agreement, agreement
from interreplay.unrolls.distances import UnrollDistance
from interreplay.unrolls.mix_settings import make_mix
from interreplay.unrolls.storage.store import UnrollStore
from interreplay.unrolls.unrolls import Unrolls
from tests.unrolls.unroll_builders import unrolls

STEPS, INPUTS, ACTIONS = 5, 8, 4


def test_measured_anew_is_what_it_is_compared_with():
    """Where stored distances are those of now, both draws are one; where they are the reverse, ranks are, too."""
    store, rng = UnrollStore(40), np.random.default_rng(0)
    store.add(unrolls(40, outputs=ACTIONS), rng)
    everything = store[torch.arange(40)]
    shift = torch.randn(everything.policy.shape, generator=torch.Generator().manual_seed(0))

    def policy(some: Unrolls) -> torch.Tensor:
        return some.policy + shift[:, some.slots]

    distance = UnrollDistance()
    far = distance(everything.policy, policy(everything), everything.live).numpy()
    before = store.state_dict()
    for sign, rank, overlap in [(1, 1, 1), (-1, -1, 0)]:
        store.notes.measured(np.arange(40), sign * far, 0)
        found = agreement(store, policy, distance, 8, 4.0, 1, np.random.default_rng(1))
        assert found.rank_correlation == pytest.approx(rank) and found.overlap == overlap
        assert found.distance_recomputed < found.distance_uniform
        assert found.by_chance == pytest.approx(8 / len(np.unique(np.random.default_rng(1).integers(0, 40, 32))))
    store.load_state_dict(before)
    assert math.isnan(agreement(store, policy, distance, 8, 4.0, 1, rng).rank_correlation)  # all stored ones are 0


def mean_agreement(refresh: int, strategy: int, growth: bool) -> Agreement:
    """Return the mean of some draws while a linear softmax policy drifts, half of each batch replayed."""
    rng, generator = np.random.default_rng(0), torch.Generator().manual_seed(0)
    elite = {"type": "elite", "share": 0.5, "capacity": 200, "strategy": strategy, "refresh": refresh}
    mix = make_mix([{"type": "queue", "share": 0.5}, elite])
    weights, drift = (torch.randn(INPUTS, ACTIONS, generator=generator) for _ in range(2))
    store, found = mix.sources["elite"].store, []
    if not growth:
        store.notes.__class__ = type("Constant", (type(store.notes),), {"growth": 0.0})
    for update in range(120):
        obs = torch.randn(STEPS + 1, 4, INPUTS, generator=generator)
        columns = {name: np.zeros((STEPS, 4)) for name in ("actions", "rewards", "terminated", "values")}
        mix.add(Unrolls(obs=obs, policy=obs[:-1] @ weights, version=update, **columns), rng)
        if not mix.ready(8):
            continue
        batch = mix.batch(8, rng)
        drift = 0.98 * drift + 0.2 * torch.randn(INPUTS, ACTIONS, generator=generator)
        weights = weights + 0.02 * drift
        again = mix.to_refresh(rng)
        for part in (batch, again):
            if part is not None:
                mix.update(part, part.obs[:-1] @ weights)
        if update > 60 and update % 4 == 0:
            now = functools.partial(lambda weights, some: some.obs[:-1] @ weights, weights)
            found.append(agreement(store, now, UnrollDistance(), 4, 6.0, strategy, np.random.default_rng(update)))
    return Agreement(*np.mean(found, axis=0).tolist())


@pytest.mark.parametrize("strategy", [1, 3])
def test_stored_distances_serve_nearly_as_well(strategy):
    found = mean_agreement(4, strategy, growth=True)
    assert found.rank_correlation > 0.75 and found.overlap > 3 * found.by_chance
    assert found.distance - found.distance_recomputed < 0.1 * (found.distance_uniform - found.distance_recomputed)


def test_that_distances_grow_is_what_makes_them_serve():
    with_growth, without = (mean_agreement(4, 1, growth) for growth in (True, False))
    assert with_growth.rank_correlation > without.rank_correlation + 0.15
    assert with_growth.overlap > without.overlap
