"""Transitions packed for transfers between processes."""

import pickle

import numpy as np
import pytest
import torch

from interreplay.rllib.env_runner.remote import pack, unpack
from interreplay.transitions import Transitions, grouped


def made(n: int, goals: bool) -> Transitions:
    rng = np.random.default_rng(n)

    def obs():
        plain = rng.normal(size=(n, 3)).astype(np.float32)
        return {"observation": plain, "goal": rng.integers(0, 255, (n, 5), np.uint8)} if goals else plain

    ends = rng.random(n) < 0.3
    extras = {"behavior": rng.normal(size=(n, 2))} if goals else {}
    episode = np.arange(n) + 2**40
    return Transitions(obs(), rng.normal(size=(n, 1)), rng.normal(size=n), obs(), ends, ~ends, episode, extras=extras)


@pytest.mark.parametrize("goals", [True, False])
@pytest.mark.parametrize("n", [0, 1, 7, 200])
def test_unpacking_restores_packed_transitions(n, goals):
    rows = made(n, goals)
    back = Transitions(**grouped(unpack(pickle.loads(pickle.dumps(pack(rows.columns()))))))
    for field in ("obs", "next_obs", "actions", "rewards", "terminated", "truncated", "episode", "extras"):
        old, new = (getattr(value, field) for value in (rows, back))
        pairs = [(old[k], new[k]) for k in old] if isinstance(old, dict) else [(old, new)]
        for a, b in pairs:
            assert a.dtype == b.dtype and torch.equal(a, b)
    assert back.discounts is None
    back.rewards.add_(1)  # the memory may be written to


def test_packing_has_little_overhead():
    rows = made(1, goals=False)
    numbers = sum(c.nbytes for c in (rows.obs, rows.next_obs, rows.actions, rows.rewards, rows.episode)) + 2
    assert len(pickle.dumps(pack(rows.columns()))) < numbers + 300
