"""Transitions packed for transfers between processes."""

import pickle

import numpy as np
import pytest
import torch

from interreplay.rllib import DQNConfig
from interreplay.rllib.env_runner.remote import pack, unpack
from interreplay.transitions import Transitions, group_columns

ALIGNMENT = 16
"""Bytes of which the addresses of new arrays are multiples."""


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
    back = Transitions(**group_columns(unpack(pickle.loads(pickle.dumps(pack(rows.columns()))))))
    for field in ("obs", "next_obs", "actions", "rewards", "terminated", "truncated", "episode", "extras"):
        old, new = (getattr(value, field) for value in (rows, back))
        pairs = [(old[k], new[k]) for k in old] if isinstance(old, dict) else [(old, new)]
        for a, b in pairs:
            assert a.dtype == b.dtype and torch.equal(a, b)
    assert back.discounts is None
    back.rewards.add_(1)  # the memory may be written to


def aligned(array):
    return array.__array_interface__["data"][0] % ALIGNMENT == 0


def test_columns_and_observations_from_other_processes_are_aligned():
    """Otherwise a remote runner would act and learn with other roundings than a local one."""
    columns = {"version": torch.zeros(1, dtype=torch.int64), "obs": torch.ones(7, 1, 3), "ends": torch.ones(7, 1)}
    assert all(aligned(column.numpy()) for column in unpack(pack(columns)).values())
    runner = DQNConfig().environment("CartPole-v1").training(hiddens=(8,)).build_algo().env_runner
    runner.collect(3)
    state = runner.state_dict()
    memory = np.zeros(64, np.uint8)
    first = -memory.__array_interface__["data"][0] % ALIGNMENT + 8
    shifted = memory[first : first + state["obs"].nbytes].view(np.float32).reshape(state["obs"].shape)
    shifted[:] = state["obs"]
    shifted.flags.writeable = False
    runner.load_state_dict(state | {"obs": shifted})
    assert not aligned(shifted) and aligned(runner._state.obs) and np.array_equal(runner._state.obs, shifted)
