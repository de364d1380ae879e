"""Algorithms with listed networks train, resume and export their policy."""

import numpy as np
import pytest
import torch

import interreplay
from interreplay.rllib import A2CConfig, DQNConfig, SACConfig, TD3Config

NOISY = [{"layer": "NoisyLinear", "outputs": 16}, "ReLU", "NoisyLinear"]
ELU = [{"layer": "Linear", "out_features": 16}, "ELU", "LayerNorm", "Linear"]
CASES = {
    "SAC": (SACConfig, "Pendulum-v1", {"actor": ELU, "critic": ELU}),
    "discrete SAC": (SACConfig, "CartPole-v1", {"actor": ELU, "critic": ELU}),
    "TD3": (TD3Config, "Pendulum-v1", {"actor": ELU, "critic": ELU}),
    "DQN": (DQNConfig, "CartPole-v1", {"features": ELU[:-1], "value": NOISY, "advantage": ELU}),
    "A2C": (A2CConfig, "CartPole-v1", {"features": ELU[:-1], "actor": ["Linear"], "critic": ELU}),
}


def config(kind, env, **settings):
    made = kind().environment(env).debugging(seed=3).training(steps_per_iteration=60, **settings)
    if kind is not A2CConfig:
        made = made.training(learning_starts=30, train_batch_size=16).replay("Uniform", capacity=1000)
    return made


def trained(algorithm, steps=60):
    while algorithm.env_steps < steps:
        algorithm.train()
    return [p.detach().clone() for p in algorithm.get_module().parameters()]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_listed_networks_train_resume_and_are_exported(name, tmp_path):
    kind, env, network = CASES[name]
    algorithm = config(kind, env, network=network).build_algo()
    before = [p.detach().clone() for p in algorithm.get_module().parameters()]
    after = trained(algorithm)
    changed = [not torch.equal(*pair) for pair in zip(before, after, strict=True)]
    assert all(changed[: len(changed) // 2]) and all(torch.isfinite(p).all() for p in after)
    path = algorithm.save_to_path(tmp_path / "checkpoint")
    expected = trained(algorithm, 120)
    again = type(algorithm).from_checkpoint(path)
    assert all(torch.equal(*pair) for pair in zip(trained(again, 120), expected, strict=True))
    policy = interreplay.load_policy(again.save_to_path(tmp_path / "last"))
    obs = np.asarray(policy.observation_space.sample(), dtype=np.float32)
    np.testing.assert_array_equal(policy.act(obs), again.act(obs))
