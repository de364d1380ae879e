"""Critics and update ratios in RLlib: modules, optimizers, and resets."""

import copy
import json

import numpy as np
import pytest
import torch

from interreplay.learning.networks.optimizers import FastAdam, FastAdamW
from tests.rllib.small_runs import config, of_preset, run, same, weights


@pytest.mark.parametrize("trainer", ["SAC", "TD3", "DDPG"])
def test_settings_reach_networks_and_updates(trainer):
    settings = {"n_critics": 3, "critic_layer_norm": True, "critic_dropout": 0.2, "weight_decay": 0.1, "critic_l2": 0.0}
    algorithm = config(trainer=trainer).training(**settings).build_algo()
    nets, rule = algorithm.learner.single_module.nets, algorithm.learner._update_rule
    for critics in (nets.critics, nets.targets):
        assert (critics.count, len(critics.scales), critics.dropout) == (3, 2, 0.2)
    assert {name: getattr(rule.settings, name) for name in settings} == settings
    assert {type(rule.optimizers[name]) for name in ("actor", "critic")} == {FastAdamW}
    assert trainer != "SAC" or type(rule.optimizers["alpha"]) is FastAdam


def test_rl_module_sets_the_number_of_critics():
    algorithm = config().rl_module(model_config={"n_critics": 4}).build_algo()
    assert algorithm.learner.single_module.nets.critics.count == algorithm.config.n_critics == 4


@pytest.mark.slow
def test_delayed_policy_updates_continue_over_iterations():
    algorithm, results = run(of_preset("redq"), 2)
    rule, learned = algorithm.learner._update_rule, results[-1]["learners"]["default_policy"]
    assert rule.updates == learned["num_updates_lifetime"] == 151
    steps = [optimizer.state[p]["step"] for optimizer in rule.optimizers.values() for p in optimizer.state]
    assert {int(step) for step in steps} == {151, 151 // 4}
    assert all(np.isfinite(value) for value in learned.values())


@pytest.mark.slow
def test_discrete_actions_support_the_options():
    made = config("CartPole-v1").training(n_critics=4, target_subset=2, critic_layer_norm=True, critic_dropout=0.1)
    algorithm, results = run(made.training(policy_delay=3, actor_target="mean", target_entropy="half"))
    assert np.isfinite(results[-1]["learners"]["default_policy"]["critic_loss"])
    assert algorithm.learner._update_rule.target_entropy == pytest.approx(0.49 * np.log(2))


@pytest.mark.slow
def test_a_reset_keeps_rows_counts_and_observation_statistics():
    made = of_preset("sr-sac", buffer="PER").training(normalize_observations=True)
    algorithm = made.build_algo()
    algorithm.train()
    encoder, rule = algorithm.learner.single_module.nets.encoder, algorithm.learner._update_rule
    before, left = weights(algorithm), 90 - rule.updates
    assert 0 < left < 90
    sample = algorithm.replay_buffer.sample(32)
    state = copy.deepcopy(algorithm.replay_buffer.selector.state_dict())
    statistics = encoder.statistics()
    for _ in range(left):
        algorithm.learner.learn_from(sample)
    after = weights(algorithm)
    assert rule.updates == algorithm.learner.updates == 90 and not rule.optimizers["critic"].state
    trained = [name for name in before if "weights" in name]
    assert all(not torch.equal(before[name], after[name]) for name in trained)
    targets = [name for name in after if ".targets." in name]
    assert targets and all(torch.equal(after[n], after[n.replace(".targets.", ".critics.")]) for n in targets)
    assert len(algorithm.replay_buffer) == 75 and algorithm.env_steps == 75
    assert json.dumps(state, default=str) == json.dumps(algorithm.replay_buffer.selector.state_dict(), default=str)
    assert encoder.statistics()["count"] == statistics["count"] == 75


@pytest.mark.slow
def test_observation_statistics_are_frozen_in_evaluation():
    made = of_preset("droq").training(normalize_observations=True)
    algorithm, _ = run(made.evaluation(evaluation_interval=None, evaluation_duration=1))
    encoder, before = algorithm.learner.single_module.nets.encoder, weights(algorithm)
    statistics = encoder.statistics()
    algorithm.evaluate()
    after = encoder.statistics()
    assert statistics["count"] == after["count"] == 150
    assert np.array_equal(statistics["mean"], after["mean"]) and same(before, weights(algorithm))
    assert float(encoder.factor.max()) != 1.0, "they normalize"
