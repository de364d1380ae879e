"""The line that recommends compiled updates at the start of a run."""

import gymnasium as gym
import numpy as np
import pytest

from interreplay.errors import UsageError
from interreplay.experience import make_source
from interreplay.experiments.commands import preparation
from interreplay.experiments.flags.training_flags import resolve_settings

VECTORS = gym.spaces.Box(-1.0, 1.0, (3,))
IMAGES = gym.spaces.Box(0, 255, (84, 84, 3), np.uint8)
LONG = {"trainer": "SAC", "env": "Pendulum-v1", "updates_per_step": 20, "total_env_steps": 10_000}


@pytest.fixture(autouse=True)
def with_compiler(monkeypatch):
    monkeypatch.setattr(preparation, "check_compiler", lambda: None)


def hint(observation_space=VECTORS, method="Uniform", **changes):
    source = make_source(method, capacity=100)
    return preparation.compilation_hint(resolve_settings(LONG | changes), source, observation_space)


def test_many_updates_are_faster_compiled():
    assert hint() == "up to 200,000 updates: --torch_compile true makes them faster"
    assert hint(trainer="TD3") == hint(trainer="TQC") == hint()


def test_updates_that_are_few_or_cannot_be_compiled():
    assert hint(total_env_steps=1_000) == ""
    assert hint(observation_space=IMAGES) == ""
    assert hint(critic_dropout=0.01) == ""
    assert hint(target_subset=1) == ""
    assert hint(method="LAP") == ""  # its batches define the loss
    assert hint(trainer="CrossQ") == ""
    assert hint(trainer="DQN", env="CartPole-v1") == ""


def test_a_machine_without_a_compiler(monkeypatch):
    def fails():
        raise UsageError("torch_compile needs a C++ compiler")

    monkeypatch.setattr(preparation, "check_compiler", fails)
    assert hint() == ""
