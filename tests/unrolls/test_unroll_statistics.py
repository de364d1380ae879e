"""Statistics of batches of unrolls compared with known values."""

import numpy as np
import pytest
import torch

from interreplay.diagnostics.unroll_statistics import UnrollStatistics
from interreplay.unrolls.distances import UnrollDistance
from interreplay.unrolls.mix_settings import make_mix
from tests.unrolls.unroll_builders import unrolls

MIX = [{"type": "queue", "share": 0.5}]
MIX += [{"type": kind, "share": 0.25, "capacity": 8} for kind in ("uniform", "elite")]


def test_statistics_of_batches():
    mix, rng, found = make_mix(MIX), np.random.default_rng(0), UnrollStatistics(every=1)
    mix.add(unrolls(12), rng)
    lags, distances, unique, drawn = [], {"uniform": [], "elite": []}, [], []
    for version in (20, 30):
        batch = mix.batch(8, rng)
        policy = batch.policy + torch.randn(batch.policy.shape, generator=torch.Generator().manual_seed(version))
        found.observe(mix, batch, version, policy)
        mix.update(batch, policy)
        far = UnrollDistance()(batch.policy, policy, batch.live)
        for number, name in enumerate(mix.sources):
            if name != "queue":
                distances[name].append(float(far[batch.origins == number].mean()))
        lags.append([version - int(made) for made in batch.version])
        unique.append(len(set(batch.slots[batch.origins == 1].tolist())) / 2)
        drawn.append(batch)
    numbers = found.collect(mix)
    assert numbers["lag_mean"] == np.mean(lags) and numbers["lag_max"] == np.max(lags)
    assert numbers["lag_fresh_mean"] == np.mean([row[:4] for row in lags])
    assert numbers["lag_replayed_mean"] == np.mean([row[4:] for row in lags])
    assert numbers["lag_replayed_max"] == np.max([row[4:] for row in lags]) and numbers["fresh_share"] == 0.5
    assert {name: numbers[f"{name}/given"] for name in mix.sources} == {"queue": 8, "uniform": 4, "elite": 4}
    for name, values in distances.items():
        assert numbers[f"{name}/distance"] == pytest.approx(np.mean(values), rel=1e-5)
        assert numbers[f"{name}/replays_per_unroll"] == 4 / 12 and numbers[f"{name}/stored"] == 8
    assert numbers["uniform/unique_share"] == np.mean(unique) and numbers["queue/waiting"] == 4
    assert all(isinstance(value, float) for value in numbers.values())
    assert "lag_mean" not in found.collect(mix) and found.collect(mix)["queue/given"] == 8


def test_distances_are_measured_every_third_batch():
    mix, rng, found = make_mix(MIX), np.random.default_rng(0), UnrollStatistics(every=3)
    mix.add(unrolls(40), rng)
    looked = []
    for version in range(7):
        batch = mix.batch(8, rng)
        found.observe(mix, batch, version, batch.policy * 2)
        looked.append("elite/distance" in found.collect(mix))
    assert looked == [True, False, False, True, False, False, True]


def test_a_restored_state_continues():
    mix, rng, one = make_mix(MIX), np.random.default_rng(0), UnrollStatistics(every=2)
    mix.add(unrolls(40), rng)
    batches = [mix.batch(8, rng) for _ in range(6)]
    two = UnrollStatistics(every=2)
    for version, batch in enumerate(batches):
        if version == 3:
            two.load_state_dict(one.state_dict())
        for statistics in (one, two) if version >= 3 else (one,):
            statistics.observe(mix, batch, version, batch.policy * 2)
    assert one.collect(mix) == two.collect(mix) and one.batches == two.batches == 6


def test_a_batch_of_fresh_unrolls():
    mix, rng, found = make_mix([{"type": "queue", "share": 1.0}]), np.random.default_rng(0), UnrollStatistics()
    mix.add(unrolls(4), rng)
    found.observe(mix, mix.batch(4, rng), 5)
    numbers = found.collect(mix)
    assert numbers["lag_mean"] == numbers["lag_fresh_mean"] == 3.5 and numbers["fresh_share"] == 1
    assert not any("replayed" in name or "distance" in name or "unique" in name for name in numbers)
