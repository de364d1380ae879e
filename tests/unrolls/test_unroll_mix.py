"""The mix: exact shares, each fresh unroll once, results returned to the source of each unroll, states."""

import copy

import numpy as np
import pytest
import torch

from interreplay.errors import NonFiniteError, UsageError
from interreplay.runs import state_files
from interreplay.selection import Prioritized
from interreplay.unrolls.distances import UnrollDistance
from interreplay.unrolls.mix_settings import make_mix
from interreplay.unrolls.mixture import UnrollMix
from interreplay.unrolls.queue import FreshQueue
from interreplay.unrolls.replay import UnrollReplay
from interreplay.unrolls.storage.store import UnrollStore
from interreplay.unrolls.unrolls import Unrolls
from tests.unrolls.unroll_builders import learn, same, unrolls

FOUR = [
    {"type": "queue", "share": 0.25},
    {"type": "elite", "share": 0.25, "capacity": 20, "insertion": "reservoir"},
    {"type": "prioritized", "share": 0.25, "capacity": 16},
    {"type": "attentive", "share": 0.25, "capacity": 12},
]


def half() -> UnrollMix:
    return make_mix([{"type": "queue", "share": 0.5}, {"type": "uniform", "capacity": 10, "share": 0.5}])


def counts(batch: Unrolls) -> list[int]:
    return np.bincount(batch.origins.numpy(), minlength=4).tolist()


@pytest.mark.parametrize(
    ("shares", "batch_size"), [((0.5, 0.5), 7), ((0.3, 0.7), 4), ((1 / 3, 2 / 3), 10), ((0.37, 0.63), 7)]
)
def test_batches_are_divided_exactly(shares, batch_size):
    mix = UnrollMix([(FreshQueue(), shares[0]), (UnrollReplay(UnrollStore(10)), shares[1])])
    rng, found = np.random.default_rng(0), np.zeros(2)
    for number in range(1, 60):
        mix.add(unrolls(10, steps=1, obs=(1,)), rng)
        due = mix.due(batch_size)
        drawn = np.array(counts(mix.batch(batch_size, rng))[:2])
        assert drawn.tolist() == [due.get(name, 0) for name in mix.sources] and drawn.sum() == batch_size
        found += drawn
        assert (abs(found - number * batch_size * np.array(shares)) <= 1 + 1e-6).all()


def test_sources_without_enough_unrolls_contribute_none():
    mix, rng = half(), np.random.default_rng(0)
    assert mix.due(8) == {"queue": 8} and not mix.ready(8)
    mix.add(unrolls(3), rng)
    assert mix.due(8) == {"queue": 8} and not mix.ready(8)
    mix.add(unrolls(1, first=3), rng)
    assert mix.due(8) == {"queue": 4, "uniform": 4} and mix.ready(8)
    assert mix.due(4)["queue"] == 2 and mix.due(8) == {"queue": 4, "uniform": 4}
    batch = mix.batch(8, rng)
    assert batch.version[:4].tolist() == [0, 1, 2, 3] and batch.fresh.tolist() == [True] * 4 + [False] * 4
    assert mix.batches == 1
    waiting = make_mix([{"type": "queue", "share": 0.5}, {"type": "uniform", "share": 0.5, "fill_in": 0.01}])
    waiting.add(unrolls(9), rng)
    assert waiting.due(8) == {"queue": 8}
    waiting.add(unrolls(1), rng)
    assert waiting.due(8) == {"queue": 4, "uniform": 4}


@pytest.mark.slow
def test_each_unroll_is_fresh_exactly_once():
    mix, rng, fresh, start = make_mix(FOUR), np.random.default_rng(0), [], 0
    while start < 1_000:
        size = int(rng.integers(1, 20))
        mix.add(unrolls(size, steps=1, first=start, seed=start), rng)
        start += size
        while mix.ready(16):
            batch = mix.batch(16, rng)
            assert (batch.slots[batch.fresh] == -1).all() and (batch.slots[~batch.fresh] >= 0).all()
            fresh += batch.version[batch.fresh].tolist()
    waiting = mix.queue.draw(len(mix.queue), rng).version.tolist() if len(mix.queue) else []
    assert fresh + waiting == list(range(start))


def test_results_are_returned_to_the_source_of_each_unroll():
    mix, rng = make_mix(FOUR), np.random.default_rng(0)
    for start in range(0, 60, 20):
        mix.add(unrolls(20, first=start, seed=start), rng)
    batch = mix.batch(16, rng)
    assert counts(batch) == [4, 4, 4, 4]
    mixed = batch[torch.from_numpy(np.random.default_rng(1).permutation(16))]  # in any order
    policy = mixed.policy + torch.linspace(0, 3, 16)[:, None] * torch.tensor([1.0, -1.0])
    mix.update(mixed, policy, errors=torch.arange(16) + 2.0)
    elite, prioritized = (mix.sources[name] for name in ("elite", "prioritized"))
    far = UnrollDistance()(mixed.policy, policy, mixed.live)
    expected = np.zeros(20, np.float32)
    for place in torch.nonzero(mixed.origins == 1)[:, 0].tolist():
        expected[mixed.slots[place]] = far[place]
    assert np.allclose(elite.store.notes["distance"], expected, rtol=1e-6) and expected.any()
    raw = np.ones(16)
    for place in torch.nonzero(mixed.origins == 2)[:, 0].tolist():
        raw[mixed.slots[place]] = place + 2.0
    assert np.allclose(prioritized.selector.priorities(torch.arange(16)), raw, atol=1e-3)
    assert (batch.weights[batch.origins != 2] == 1).all()


def test_refreshed_unrolls_are_measured_again():
    mix, rng = make_mix(FOUR), np.random.default_rng(0)
    assert mix.to_refresh(rng) is None
    mix.add(unrolls(60), rng)
    for _ in range(4):
        assert mix.to_refresh(rng) is None
        mix.batch(16, rng)
    again = mix.to_refresh(rng)
    assert again.size == 16 and (again.origins == 1).all()
    mix.update(again, 1.5 * again.policy)
    elite = mix.sources["elite"]
    assert set(np.flatnonzero(elite.store.notes["distance"] > 0).tolist()) == set(again.slots.tolist())
    assert half().to_refresh(rng) is None


def test_sources_of_one_type_have_different_names():
    twice = {"type": "uniform", "capacity": 5, "share": 0.25}
    mix = make_mix([{"type": "queue", "share": 0.5}, twice, twice])
    assert list(mix.sources) == ["queue", "uniform", "uniform#2"]
    mix.add(unrolls(6), np.random.default_rng(0))
    assert mix.statistics()["uniform#2/stored"] == 5 and mix.statistics()["queue/waiting"] == 6
    assert repr(mix).startswith("UnrollMix(0.5 queue: FreshQueue(1), 0.25 uniform: UnrollReplay(5 by Fifo, Uniform)")


def test_non_finite_unrolls_are_rejected():
    for column, entry in (("rewards", (2, 1)), ("obs", (4, 0, 2)), ("policy", (0, 2, 1))):
        mix, bad = half(), unrolls(3)
        getattr(bad, column)[entry] = float("nan")
        with pytest.raises(NonFiniteError) as caught:
            mix.add(bad, np.random.default_rng(0))
        assert str(caught.value).startswith(f"{column} holds nan at entry {entry} of the added unrolls")
        assert len(mix.queue) == 0


def test_shares_are_annealed():
    mix = make_mix([{"type": "queue", "share": [1.0, 0.5]}, {"type": "uniform", "capacity": 9, "share": [0.0, 0.5]}])
    rng = np.random.default_rng(0)
    mix.add(unrolls(50), rng)
    found = []
    for progress in (0.0, 0.5, 1.0):
        mix.anneal(progress)
        found.append(counts(mix.batch(8, rng))[:2])
    assert found == [[8, 0], [6, 2], [4, 4]]


@pytest.mark.parametrize("before", [0, 1, 7])
def test_a_state_on_disk_restores_the_next_batches(before, tmp_path):
    one, rng = make_mix(FOUR), np.random.default_rng(0)
    sizes = {"added": 6, "size": 9, "state": {"h": (2,)}}
    learn(one, rng, 0, before, **sizes)
    state_files.save(tmp_path / "mix", one.state_view())
    two, other, state = make_mix(FOUR), copy.deepcopy(rng), state_files.load(tmp_path / "mix")
    two.load_state_dict(state)
    mine = learn(one, rng, before, before + 7, **sizes)
    others = learn(two, other, before, before + 7, **sizes)
    assert len(mine) == len(others) >= 4 and all(same(a, b) for a, b in zip(mine, others, strict=True))
    assert one.statistics() == two.statistics() and one.nbytes == two.nbytes and one.batches == two.batches
    with pytest.raises(ValueError, match=r"the state has the sources \['queue', 'elite'.*; expected \['queue', 'uni"):
        half().load_state_dict(state)


def test_a_batch_without_a_fresh_unroll_is_rejected():
    mix = UnrollMix([(FreshQueue(), 0.125), (UnrollReplay(UnrollStore(3), Prioritized()), 0.875)])
    mix.check(9)
    with pytest.raises(UsageError, match="a share of 0.125 for queue is 0.5 of 4 unrolls; expected at least one"):
        mix.check(4)
    mix = make_mix([{"type": "queue", "share": [1.0, 0.2]}, {"type": "uniform", "share": [0.0, 0.8]}])
    mix.check(5)
    with pytest.raises(UsageError, match="a share of 0.2 for queue is 0.8 of 4 unrolls; expected at least one"):
        mix.check(4)
