"""Unrolls: defaults, checks, slicing and concatenation; the queue returns each fresh unroll once, in order."""

import pickle

import numpy as np
import pytest
import torch

from interreplay.unrolls.queue import FreshQueue
from interreplay.unrolls.unrolls import Unrolls, cat, from_columns
from tests.unrolls.unroll_builders import same, unrolls

DICT = {"state": (3,), "goal": (2,)}


def test_defaults():
    made = Unrolls(
        obs=np.zeros((3, 2, 5)),
        actions=np.zeros((2, 2), np.int64),
        rewards=np.ones((2, 2), np.int32),
        terminated=np.zeros((2, 2)),
        policy=np.zeros((2, 2, 4), np.float32),
        values=np.zeros((2, 2)),
        version=7,
    )
    assert made.rewards.dtype == made.values.dtype == torch.float32 and made.terminated.dtype == torch.bool
    assert made.live.all() and made.fresh.tolist() == [True, True] and made.version.tolist() == [7, 7]
    assert made.slots.tolist() == made.origins.tolist() == made.writes.tolist() == [-1, -1]
    assert made.weights.tolist() == [1, 1]
    assert made.state == {} and (made.steps, made.size, len(made), made.env_steps) == (2, 2, 2, 4)


def test_columns_of_wrong_shape_are_rejected():
    for column, value, message in (
        ("rewards", np.zeros(4), r"rewards has shape \(4,\); expected \(T, B\)"),
        ("obs", np.zeros((4, 2, 3)), r"obs has shape \(4, 2, 3\); expected \(5, 2\) and more"),
        ("values", np.zeros((4, 2, 1)), r"values has shape \(4, 2, 1\); expected \(4, 2\)"),
        ("version", np.zeros(3), r"version has shape \(3,\); expected \(2,\)"),
        ("state", {"h": np.zeros((4, 2))}, r"state.h has shape \(4, 2\); expected \(2,\) and more"),
        ("obs", {"a": np.zeros((5, 1, 3))}, r"obs.a has shape \(5, 1, 3\); expected \(5, 2\) and more"),
    ):
        with pytest.raises(ValueError, match=message):
            Unrolls(**(unrolls(2).__dict__ | {column: value}))


@pytest.mark.parametrize("obs", [(3,), DICT, (2, 4, 4)])
def test_slices_are_concatenated_to_the_whole(obs):
    whole = unrolls(5, obs=obs, state={"h": (2,), "c": (2,)})
    assert same(cat([whole[0], whole[1:3], whole[torch.tensor([3, 4])]]), whole)
    assert same(cat([whole[torch.arange(5) < 2], whole[-3:]]), whole)
    assert same(from_columns(whole.columns()), whole)
    assert whole[-1].version.tolist() == [4] and whole[2].state["h"].shape == (1, 2)
    assert all(column.is_contiguous() for column in cat([whole[::2]]).columns().values())


def test_pickle():
    whole = unrolls(5, obs=DICT, state={"h": (2,)})
    assert same(pickle.loads(pickle.dumps(whole)), whole)


def test_unrolls_are_returned_once_in_order():
    rng, queue, given, start = np.random.default_rng(0), FreshQueue(64), [], 0
    while len(given) < 2_000:
        if len(queue) < 64:
            size = int(rng.integers(0, 40))
            queue.add(unrolls(size, steps=1, obs=(1,), first=start))
            start += size
        count = int(rng.integers(1, 50))
        if queue.can_provide(count):
            given += queue.draw(count).version.tolist()
        assert len(queue) == start - len(given) and len(queue) < 64 + 40
    assert given == list(range(len(given))) and (queue.taken, queue.given) == (start, len(given))
    assert queue.statistics() == {"waiting": len(queue)}
