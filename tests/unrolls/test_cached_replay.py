"""Copying replayed unrolls in a background thread: the same unrolls as without, drawn one batch earlier."""

import copy
import threading

import numpy as np
import pytest
import torch

from interreplay.unrolls.mix_settings import make_mix
from interreplay.unrolls.replay import CachedReplay
from interreplay.unrolls.storage.store import UnrollStore
from tests.unrolls.unroll_builders import learn, same, unrolls

HALF = [{"type": "queue", "share": 0.5}, {"type": "uniform", "capacity": 12, "share": 0.5}]
KINDS = ("uniform", "prioritized", "elite", "attentive")


def mix_of(kind: str, caching: bool = True, capacity: int = 12):
    sources = [HALF[0], HALF[1] | {"type": kind, "capacity": capacity}]
    return make_mix(sources, caching=caching)


def test_a_prepared_batch_is_what_the_store_contained_when_it_was_chosen():
    replay = CachedReplay(UnrollStore(3))
    rng = np.random.default_rng(0)
    old = unrolls(3, seed=0)
    replay.add(old, rng)
    replay.prepare(8, rng)
    replay.add(unrolls(3, seed=1, first=3), rng)  # replaces all of them
    drawn = replay.draw(8, rng)
    expected = old[drawn.version]
    assert same(drawn, expected, but=("fresh", "slots", "writes"))
    assert drawn.slots.tolist() == drawn.version.tolist() and not drawn.fresh.any()
    replay.update(drawn, slice(None), errors=torch.ones(8))  # of replaced unrolls: without effect
    assert replay.draw(8, rng).version.min() >= 3


def test_a_prepared_batch_equals_the_draw_at_that_time():
    one = CachedReplay(UnrollStore(9))
    two = CachedReplay(UnrollStore(9))
    for replay in (one, two):
        replay.add(unrolls(9), np.random.default_rng(0))
    one.prepare(5, np.random.default_rng(1))
    assert same(one.draw(5, np.random.default_rng(2)), two.draw(5, np.random.default_rng(1)))
    assert one.statistics() == two.statistics() and one.drawn == 5


def test_another_size_is_drawn_again():
    replay = CachedReplay(UnrollStore(9))
    replay.add(unrolls(9), np.random.default_rng(0))
    replay.prepare(5, np.random.default_rng(1))
    assert replay.draw(3, np.random.default_rng(1)).size == 3
    assert replay.draw(4, np.random.default_rng(1)).size == 4


@pytest.mark.parametrize("before", [0, 2, 11])
@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_state_continues_with_the_prepared_batch(kind, before):
    one, rng = mix_of(kind), np.random.default_rng(0)
    learn(one, rng, 0, before)
    one.add(unrolls(3, seed=99), rng)  # replaces unrolls of the prepared batch
    two, other = mix_of(kind), copy.deepcopy(rng)
    two.load_state_dict(one.state_dict())
    mine, others = learn(one, rng, before, before + 9), learn(two, other, before, before + 9)
    assert len(mine) == len(others) >= 5 and all(map(same, mine, others))
    assert one.statistics() == two.statistics()


@pytest.mark.parametrize(("before", "after"), [(False, True), (True, False)])
def test_caching_can_be_changed_when_resuming(before, after):
    one, two = mix_of("uniform", before), mix_of("uniform", after)
    learn(one, np.random.default_rng(0), 0, 6)
    two.load_state_dict(one.state_dict())
    batch = learn(two, np.random.default_rng(0), 6, 8)[-1]
    assert batch.size == 6 and 0 < batch.fresh.sum() < 6


def test_the_copy_is_made_by_another_thread():
    replay = CachedReplay(UnrollStore(9))
    replay.add(unrolls(9), np.random.default_rng(0))
    threads = []
    copied = replay._copy
    replay._copy = lambda *given: (threads.append(threading.current_thread()), copied(*given))[1]
    replay.prepare(5, np.random.default_rng(1))
    replay.draw(5, np.random.default_rng(1))
    assert threads and threads[0] is not threading.current_thread()
    replay._copy = lambda *given: 1 / 0
    replay.prepare(5, np.random.default_rng(1))
    with pytest.raises(ZeroDivisionError):
        replay.draw(5, np.random.default_rng(1))
