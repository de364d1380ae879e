"""Conversion of stored actions to actions of environments with integers."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from interreplay.acting.export import DeterministicPolicy, compare_actions
from interreplay.acting.trained_policy import TrainedPolicy
from interreplay.environments.actions import make_actions
from interreplay.learning.actor_critic.td3 import DeterministicActor


@pytest.mark.parametrize(("low", "high", "dtype"), [(-3, 3, np.int32), (0, 10, np.int64), (-128, 127, np.int8)])
def test_integer_actions_are_rounded_and_reach_all_values(low, high, dtype):
    actions = make_actions(gym.spaces.Box(low, high, (1,), dtype))
    stored = np.linspace(-1, 1, 100_001, dtype=np.float32)[:, None]
    made = actions.to_env(stored)
    assert made.dtype == dtype
    assert np.array_equal(np.unique(made), np.arange(low, high + 1))
    exact = low + (stored.astype(np.float64) + 1) * (high - low) / 2
    assert np.abs(made - exact).max() <= 0.5 + 1e-4


def test_parts_of_nested_actions_may_be_integers_or_empty():
    parts = {"a": gym.spaces.Box(-3, 3, (1,), np.int32), "b": gym.spaces.Box(-1, 1, (0,)), "c": gym.spaces.Box(-1, 1)}
    made = make_actions(gym.spaces.Dict(parts)).to_env(np.float32([[0.9, 0.25]]))
    assert made["a"].dtype == np.int32 and made["a"].item() == 3
    assert made["b"].shape == (1, 0) and made["c"].tolist() == [[0.25]]


def test_integer_parts_of_actions_are_rounded_as_by_the_policy():
    parts = {"b": gym.spaces.Box(-2, 2, (2,)), "a": gym.spaces.Box(0, 5, (2,), np.int64)}
    nets = torch.nn.Module()
    nets.encoder = torch.nn.Identity()
    nets.actor = DeterministicActor(3, 4, (8,))
    policy = TrainedPolicy(nets, gym.spaces.Box(-1, 1, (3,)), gym.spaces.Dict(parts))
    module = DeterministicPolicy(policy)
    obs = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    found = compare_actions(policy, lambda given: module(torch.from_numpy(given[""])).numpy(), {"": obs})
    assert found.difference < 1e-5
