"""Residual networks, mean targets, resets at env steps and age-based replay in whole runs."""

import numpy as np
import pytest
import torch

import interreplay
from interreplay.acting import export as export_policy
from interreplay.acting.trained_policy import TrainedPolicy
from interreplay.learning.networks.residual_layers import ResidualMLP
from tests.rllib.small_runs import config, continued, run, same, weights

RESIDUAL = {"critic_blocks": 1, "critic_width": 16, "actor_blocks": 1, "actor_width": 12, "weight_decay": 0.01}
RECIPE = {"n_critics": 1, "normalize_observations": True, "critic_target": "mean", "reset_at": [90]}
# Algorithm, environment, replay method and its arguments: every algorithm once, each with another method.
RUNS = {
    "SAC": ("Pendulum-v1", "NMER", {"selector": {"type": "Faded", "rate": 0.98}}),
    "TQC": ("Pendulum-v1", "SWD", {"horizon": 60}),
    "TD3": ("Pendulum-v1", "LaBER", {}),
    "DDPG": ("Pendulum-v1", "PER", {}),
}


def made(trainer, env=None, buffer=None, **arguments):
    known = RUNS.get(trainer)
    if known is not None and buffer is None:
        env, buffer, arguments = known
    settings = RESIDUAL | RECIPE
    if trainer == "TQC":
        settings = {name: value for name, value in settings.items() if name != "critic_target"}
    if trainer == "DDPG":
        settings |= {"critic_l2": 0.0}
    return config(env or "Pendulum-v1", buffer or "Uniform", trainer=trainer, **arguments).training(**settings)


@pytest.mark.slow
@pytest.mark.parametrize("trainer", RUNS)
def test_a_resumed_run_is_bit_exact(trainer, tmp_path):
    straight, resumed = continued(lambda: made(trainer).build_algo(), tmp_path / "c")
    assert same(weights(straight), weights(resumed))
    assert all(torch.isfinite(value).all() for value in weights(straight).values())
    nets = straight.learner.single_module.nets
    assert all(isinstance(each, ResidualMLP) for each in (nets.critics, nets.targets, nets.actor.body))
    assert straight.learner._update_rule.resets_at_steps == 1


@pytest.mark.slow
def test_a_reset_at_an_env_step_is_the_reset_interval_that_matches():
    """Updates begin with env step 50, so that step 70 makes update 21."""
    by_steps, _ = run(config(buffer="NMER").training(reset_at=[70]), 1)
    by_updates, _ = run(config(buffer="NMER").training(reset_interval=21), 1)
    never, _ = run(config(buffer="NMER"), 1)
    assert by_steps.learner.updates == 26
    assert same(weights(by_steps), weights(by_updates))
    assert not same(weights(by_steps), weights(never))


@pytest.mark.slow
def test_discrete_actions_have_residual_networks():
    algorithm, results = run(made("SAC", "CartPole-v1", "PER"))
    assert np.isfinite(results[-1]["learners"]["default_policy"]["critic_loss"])
    assert isinstance(algorithm.learner.single_module.nets.critics, ResidualMLP)


@pytest.mark.slow
def test_a_stored_policy_acts_alike_and_can_be_exported(tmp_path):
    algorithm, _ = run(made("SAC"), 1)
    checkpoint = tmp_path / "c"
    algorithm.save_to_path(checkpoint)
    policy = interreplay.load_policy(checkpoint)
    obs = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    assert np.array_equal(policy.act(obs), algorithm.act(obs))
    assert isinstance(policy, TrainedPolicy)
    for name in ("policy.pt2", "policy.onnx"):
        export_policy.export(policy, tmp_path / name, observations=50)
        assert (tmp_path / name).exists()
