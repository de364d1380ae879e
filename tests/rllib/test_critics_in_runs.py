"""Critics in RLlib: number, normalization, residual networks, TQC and CrossQ, update ratios and resets."""

import numpy as np
import pytest
import torch

from interreplay.learning.networks.optimizers import FastAdam, FastAdamW
from interreplay.learning.networks.residual_layers import ResidualMLP
from tests.rllib.small_runs import config, continued, of_preset, run, same, weights


@pytest.mark.parametrize("trainer", ["SAC", "TD3", "DDPG"])
def test_settings_reach_networks_and_updates(trainer):
    settings = {"n_critics": 3, "critic_layer_norm": True, "critic_dropout": 0.2, "weight_decay": 0.1, "critic_l2": 0.0}
    algorithm = config(trainer=trainer).training(**settings).build_algo()
    nets = algorithm.learner.single_module.nets
    rule = algorithm.learner.update_rule
    for critics in (nets.critics, nets.targets):
        assert (critics.count, len(critics.scales), critics.dropout) == (3, 2, 0.2)
    assert {name: getattr(rule.settings, name) for name in settings} == settings
    assert {type(rule.optimizers[name]) for name in ("actor", "critic")} == {FastAdamW}
    assert trainer != "SAC" or type(rule.optimizers["alpha"]) is FastAdam


@pytest.mark.slow
def test_a_reset_keeps_counts_and_observation_statistics():
    algorithm = of_preset("sr-sac").training(normalize_observations=True).build_algo()
    algorithm.train()
    rule = algorithm.learner.update_rule
    sample = algorithm.replay_buffer.sample(32)
    for _ in range(90 - rule.updates):
        algorithm.learner.learn_from(sample)
    assert rule.updates == algorithm.learner.updates == 90 and not rule.optimizers["critic"].state
    assert algorithm.learner.single_module.nets.encoder.statistics()["count"] == 75


RESIDUAL = {"critic_blocks": 1, "critic_width": 16, "actor_blocks": 1, "actor_width": 12, "weight_decay": 0.01}
RECIPE = {"n_critics": 1, "normalize_observations": True, "critic_target": "mean", "reset_at": [90]}


@pytest.mark.slow
def test_a_resumed_run_of_residual_networks_is_bit_exact(tmp_path):
    made = lambda: config(buffer="NMER").training(**RESIDUAL, **RECIPE).build_algo()
    straight, resumed = continued(made, tmp_path / "c")
    assert same(weights(straight), weights(resumed))
    assert all(torch.isfinite(value).all() for value in weights(straight).values())
    nets = straight.learner.single_module.nets
    assert all(isinstance(each, ResidualMLP) for each in (nets.critics, nets.targets, nets.actor.body))
    assert straight.learner.update_rule.resets_at_steps == 1


DROPPED = {"n_critics": 4, "target_subset": 2, "critic_layer_norm": True, "critic_dropout": 0.1, "policy_delay": 3}
DROPPED |= {"actor_target": "mean"}


@pytest.mark.slow
@pytest.mark.parametrize("options", [RESIDUAL | RECIPE, DROPPED], ids=["residual", "dropout"])
def test_discrete_actions_support_the_options(options):
    algorithm, results = run(config("CartPole-v1", "PER").training(**options, target_entropy="half"))
    assert np.isfinite(results[-1]["learners"]["default_policy"]["critic_loss"])
    assert algorithm.learner.update_rule.target_entropy == pytest.approx(0.49 * np.log(2))
    assert isinstance(algorithm.learner.single_module.nets.critics, ResidualMLP) == ("critic_blocks" in options)


@pytest.mark.slow
def test_a_reset_at_an_env_step_is_the_reset_interval_that_matches():
    """Updates begin with env step 50, so that step 70 makes update 21."""
    by_steps, _ = run(config(buffer="NMER").training(reset_at=[70]), 1)
    by_updates, _ = run(config(buffer="NMER").training(reset_interval=21), 1)
    never, _ = run(config(buffer="NMER"), 1)
    assert by_steps.learner.updates == 26
    assert same(weights(by_steps), weights(by_updates))
    assert not same(weights(by_steps), weights(never))


LACKING = {("ReLo", "CrossQ"): "reducible_loss", ("LA3P", "TQC"): "critic_loss"}
"""Scores that a method requires and an algorithm lacks, because it has no target networks or a quantile loss."""


@pytest.mark.parametrize(("buffer", "trainer"), LACKING)
def test_unsupported_methods_are_rejected(buffer, trainer):
    with pytest.raises(
        ValueError, match=f"{LACKING[buffer, trainer]}.*{trainer}|{trainer}.*{LACKING[buffer, trainer]}"
    ):
        config(buffer=buffer, trainer=trainer).build_algo()


def test_settings_reach_networks_and_updates_of_tqc_and_crossq():
    made = config(trainer="TQC").training(n_critics=3, n_quantiles=7, drop_per_critic=1, kappa=0.5)
    algorithm = made.build_algo()
    update = algorithm.learner.update_rule
    nets = algorithm.learner.single_module.nets
    assert (update.settings.drop_per_critic, update.settings.kappa) == (1, 0.5)
    assert tuple(nets.critics.weights[-1].shape) == (3, 32, 7) == tuple(nets.targets.weights[-1].shape)
    made = config(trainer="CrossQ").training(policy_delay=2, renorm_warm_up=7, activation="tanh")
    algorithm = made.build_algo()
    update = algorithm.learner.update_rule
    nets = algorithm.learner.single_module.nets
    assert (update.settings.policy_delay, nets.critics.warm_up, nets.actor.body.warm_up) == (2, 7, 7)
    assert tuple(nets.critics.weights[1].shape) == (2, 256, 256) and nets.critics.activation == "tanh"
    assert update.optimizers["critic"].param_groups[0]["betas"] == (0.5, 0.999)
    narrow = config(trainer="CrossQ").training(critic_hiddens=(16, 8)).build_algo().learner.single_module.nets
    assert tuple(narrow.critics.weights[1].shape) == (2, 16, 8)


def test_inference_modules_have_the_statistics():
    algorithm, _ = run(config(trainer="CrossQ"), 1)
    module = algorithm.learner.single_module
    spaces = {name: getattr(module, name) for name in ("observation_space", "action_space")}
    alone = type(module)(**spaces, inference_only=True, model_config=module.model_config)
    state = module.get_state(inference_only=True)
    assert not any("critics" in name or "alpha" in name for name in state)
    alone.set_state(state)
    obs = torch.randn(9, 3)
    assert torch.equal(alone.policy.act(obs), module.policy.act(obs)) and int(alone.nets.actor.body.trained) > 0
