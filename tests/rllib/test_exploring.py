"""Explorations and updates in RLlib: how they are chosen, and their state in runners and checkpoints."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from interreplay.learning.exploration import EpsilonGreedy, Gaussian, OrnsteinUhlenbeck
from interreplay.rllib.env_runner.runner_state import EpisodeLog, RunnerState
from tests.rllib.small_runs import config


def test_the_progress_of_schedules_ends_at_one():
    algorithm = config().training(exploration="Gaussian", anneal_steps=100, updates_per_step=0).build_algo()
    explored = []
    replayed = []
    algorithm.env_runner._state.exploration.anneal = explored.append
    algorithm.replay_buffer.anneal = replayed.append
    algorithm.train(), algorithm.train()
    for progress in (explored, replayed):
        assert len(progress) == 150 and sorted(progress) == progress and progress[-50:] == [1.0] * 50


def begin(exploration):
    state = {"index": 0, "env_seed": 1, "log": EpisodeLog(1, first=0), "over": np.zeros(1, dtype=bool)}
    rngs = {"torch_rng": torch.Generator().manual_seed(2), "numpy_rng": np.random.default_rng(3)}
    return RunnerState(exploration=exploration, **state, **rngs)


@pytest.mark.parametrize("kind", [EpsilonGreedy, OrnsteinUhlenbeck])
def test_forks_may_explore_differently(kind):
    """The command fork loads the state of a runner whose exploration can be of another class."""
    envs = gym.vector.SyncVectorEnv([lambda: gym.make("Pendulum-v1")])
    parent, child = begin(Gaussian()), begin(kind())
    before = child.exploration.state_dict()
    child.load_state_dict(parent.state_dict(envs, True), envs)
    assert child.exploration.state_dict() == before
    assert torch.equal(child.torch_rng.get_state(), parent.torch_rng.get_state())


def test_the_seed_of_the_next_reset_is_restored():
    """A run that was resumed with other environments and saved before its next step does not repeat episodes."""
    envs = gym.vector.SyncVectorEnv([lambda: gym.make("Pendulum-v1")])
    saved, restored = begin(Gaussian()), begin(Gaussian())
    saved.seeded = True
    saved.seed_next_reset(7)
    restored.load_state_dict(saved.state_dict(envs, True), envs)
    assert (restored.env_seed, restored.seeded) == (7, False)


def test_counts_and_the_ends_of_episodes_are_restored():
    """A run may be saved between the last step of an episode and the reset that follows."""
    envs, others = (gym.vector.SyncVectorEnv([lambda: gym.make("Pendulum-v1")]) for _ in range(2))
    saved, restored = begin(Gaussian()), begin(Gaussian())
    saved.obs, _ = envs.reset(seed=0)
    saved.over, saved.steps_since_report, saved.evaluated = np.array([True]), 3, 4
    restored.load_state_dict(saved.state_dict(envs, False), others)
    assert (restored.steps_since_report, restored.evaluated) == (3, 4)
    assert others.unwrapped._autoreset_envs.tolist() == [True]
