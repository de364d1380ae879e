"""TQC and CrossQ in RLlib: their specifics; training and settings are in test_actor_critic_algorithms.py."""

import pytest
import torch

from interreplay.errors import CheckpointError
from interreplay.rllib import CrossQ
from tests.rllib.small_runs import config, run, same, weights

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
    update, nets = algorithm.learner._update_rule, algorithm.learner.single_module.nets
    assert (update.settings.drop_per_critic, update.settings.kappa) == (1, 0.5)
    assert tuple(nets.critics.weights[-1].shape) == (3, 32, 7) == tuple(nets.targets.weights[-1].shape)
    made = config(trainer="CrossQ").training(policy_delay=2, renorm_warm_up=7, activation="tanh")
    algorithm = made.build_algo()
    update, nets = algorithm.learner._update_rule, algorithm.learner.single_module.nets
    assert (update.settings.policy_delay, nets.critics.warm_up, nets.actor.body.warm_up) == (2, 7, 7)
    assert tuple(nets.critics.weights[1].shape) == (2, 256, 256) and nets.critics.activation == "tanh"
    assert update.optimizers["critic"].param_groups[0]["betas"] == (0.5, 0.999)
    narrow = config(trainer="CrossQ").training(critic_hiddens=(16, 8)).build_algo().learner.single_module.nets
    assert tuple(narrow.critics.weights[1].shape) == (2, 16, 8)


def statistics(state):
    return {name: value for name, value in state.items() if name.endswith((".mean", ".variance", ".trained"))}


@pytest.mark.slow
def test_evaluation_and_acting_leave_the_statistics_unchanged():
    algorithm = config(trainer="CrossQ").evaluation(evaluation_interval=1, evaluation_duration=1).build_algo()
    algorithm.train()
    before = weights(algorithm)
    algorithm.evaluate()
    module = algorithm.learner.single_module
    obs = torch.randn(50, 3)
    together = module.act(obs, None)
    for forward in (module.forward_inference, module.forward_exploration):
        assert forward({"obs": obs})["actions"].shape == (50, 1)
    torch.testing.assert_close(together[:1], module.act(obs[:1], None))
    assert same(before, weights(algorithm))
    assert len(statistics(before)) == 14, "mean and variance of three layers each, and both counts"


def test_inference_modules_have_the_statistics():
    algorithm, _ = run(config(trainer="CrossQ"), 1)
    module = algorithm.learner.single_module
    spaces = {name: getattr(module, name) for name in ("observation_space", "action_space")}
    alone = type(module)(**spaces, inference_only=True, model_config=module.model_config)
    state = module.get_state(inference_only=True)
    assert not any("critics" in name or "alpha" in name for name in state)
    alone.set_state(state)
    obs = torch.randn(9, 3)
    assert torch.equal(alone.act(obs), module.act(obs)) and int(alone.nets.actor.body.trained) > 0


def test_a_checkpoint_restores_the_statistics_and_rejects_other_critics(tmp_path):
    algorithm, _ = run(config(trainer="CrossQ"), 1)
    algorithm.save_to_path(tmp_path / "c")
    restored = CrossQ.from_checkpoint(tmp_path / "c")
    found, expected = statistics(weights(restored)), statistics(weights(algorithm))
    assert found.keys() == expected.keys() and same(found, expected) and expected["nets.critics.trained"] > 20
    with pytest.raises(CheckpointError, match=r"setting critic_hiddens 'auto'; this run has '\[8\]'"):
        config(trainer="CrossQ").training(critic_hiddens=(8,)).build_algo().restore_from_path(tmp_path / "c")
