"""Algorithms with listed networks train, equal built-in ones bit for bit, resume, and export their policy."""

import numpy as np
import pytest
import torch

import interreplay
from interreplay.rllib import A2CConfig, DQNConfig, IMPALAConfig, RainbowConfig, SACConfig, TD3Config, TQCConfig

LINEAR = [{"layer": "Linear", "out_features": 16}, "ReLU", "Linear"]
NOISY = [{"layer": "NoisyLinear", "outputs": 16}, "ReLU", "NoisyLinear"]
ELU = [{"layer": "Linear", "out_features": 16}, "ELU", "LayerNorm", "Linear"]
TANH = [{"layer": "Linear", "out_features": 16}, "Tanh", "Linear"]
CASES = {
    "SAC": (SACConfig, "Pendulum-v1", {"actor": LINEAR, "critic": LINEAR}),
    "TD3": (TD3Config, "Pendulum-v1", {"actor": LINEAR, "critic": LINEAR}),
    "TQC": (TQCConfig, "Pendulum-v1", {"actor": LINEAR, "critic": LINEAR}),
    "DQN": (DQNConfig, "CartPole-v1", {"q": LINEAR}),
    "Rainbow": (RainbowConfig, "CartPole-v1", {"value": NOISY, "advantage": NOISY}),
    "A2C": (A2CConfig, "CartPole-v1", {"actor": TANH, "critic": TANH}),
    "IMPALA": (IMPALAConfig, "CartPole-v1", {"features": LINEAR[:2], "actor": ["Linear"], "critic": ["Linear"]}),
}
OTHERS = {
    "SAC": (SACConfig, "Pendulum-v1", {"actor": ELU, "critic": ELU}),
    "discrete SAC": (SACConfig, "CartPole-v1", {"actor": ELU, "critic": ELU}),
    "TD3": (TD3Config, "Pendulum-v1", {"actor": ELU, "critic": ELU}),
    "DQN": (DQNConfig, "CartPole-v1", {"features": ELU[:-1], "value": NOISY, "advantage": ELU}),
    "A2C": (A2CConfig, "CartPole-v1", {"features": ELU[:-1], "actor": ["Linear"], "critic": ELU}),
}


def config(kind, env, **settings):
    made = kind().environment(env).debugging(seed=3).training(steps_per_iteration=60, **settings)
    if kind not in (A2CConfig, IMPALAConfig):
        made = made.training(learning_starts=30, train_batch_size=16).replay("Uniform", capacity=1000)
    return made


def trained(algorithm, steps=60):
    while algorithm.env_steps < steps:
        algorithm.train()
    return [p.detach().clone() for p in algorithm.get_module().parameters()]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_60_steps_equal_those_of_the_built_in_network(name):
    kind, env, network = CASES[name]
    weights = []
    shared = {"shared_layers": True, "activation": "relu"} if name == "IMPALA" else {}
    for settings in ({"network": network}, {"hiddens": (16,)}):
        weights.append(trained(config(kind, env, **settings, **shared).build_algo()))
    assert all(torch.equal(*pair) for pair in zip(*weights, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_others_train_resume_and_are_exported(name, tmp_path):
    kind, env, network = OTHERS[name]
    algorithm = config(kind, env, network=network).build_algo()
    before = [p.detach().clone() for p in algorithm.get_module().parameters()]
    after = trained(algorithm)
    changed = [not torch.equal(*pair) for pair in zip(before, after, strict=True)]
    assert all(changed[: len(changed) // 2]) and all(torch.isfinite(p).all() for p in after)
    path = algorithm.save_to_path(tmp_path / "checkpoint")
    expected = trained(algorithm, 120)
    again = type(algorithm).from_checkpoint(path)
    assert all(torch.equal(*pair) for pair in zip(trained(again, 120), expected, strict=True))
    obs = algorithm.env_runner.env.observation_space.sample() if hasattr(algorithm.env_runner, "env") else None
    policy = interreplay.load_policy(again.save_to_path(tmp_path / "last"))
    obs = policy.observation_space.sample() if obs is None else obs
    action = policy.act(np.asarray(obs, dtype=np.float32))
    np.testing.assert_array_equal(action, again.act(np.asarray(obs, dtype=np.float32)))
