"""TD3, DDPG, TQC, CrossQ and the critics of SAC in RLlib: training, networks, settings, update ratios and resets."""

import numpy as np
import pytest
import torch

from argument_parser import resolve_settings
from interreplay.experiments.training.start import algorithm_settings, configure
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.learning.exploration import Gaussian, OrnsteinUhlenbeck, Random
from interreplay.learning.networks.optimizers import FastAdam, FastAdamW
from interreplay.learning.networks.residual_layers import ResidualMLP
from interreplay.rllib import DDPG
from tests.rllib.small_runs import CONFIGS, config, continued, of_preset, rows_of, run, same, trained, weights

OPTIONS = {"n_critics": 3, "target_subset": 2, "critic_layer_norm": True, "critic_dropout": 0.1, "actor_target": "mean"}
OPTIONS |= {"weight_decay": 0.01, "reset_interval": 80}
REPORTED = ("critic_loss", "actor_loss", "q_mean")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trainer", "options", "reported"),
    [
        ("TD3", OPTIONS, REPORTED),
        ("DDPG", {"n_step": 3}, REPORTED),
        ("TQC", {"n_step": 3}, (*REPORTED, "alpha")),
        # the default width is eight times as large
        ("CrossQ", {"n_step": 3, "critic_hiddens": (32, 32)}, (*REPORTED, "alpha")),
    ],
)
def test_algorithms_train_and_return_td_errors(trainer, options, reported):
    algorithm, results = run(config(buffer="PER", trainer=trainer).training(**options))
    learned = results[-1]["learners"]["default_policy"]
    assert learned["num_updates_lifetime"] == 101
    assert all(np.isfinite(learned[name]) for name in reported)
    assert len(algorithm.replay_buffer.selector.priorities(torch.arange(150)).unique()) > 50


def test_actions_are_random_during_warm_up_and_noisy_afterwards():
    made = config(trainer="TD3").training(exploration=Gaussian(0.05), updates_per_step=0, steps_per_iteration=150)
    algorithm = trained(made.training(num_steps_sampled_before_learning_starts=100), 2)
    rows = rows_of(algorithm)
    warm_up = rows.actions[:100].numpy().ravel()
    # Uniform: the largest distance of 100 to its distribution function is below .2 in all but .06 % of cases.
    assert np.abs(np.sort(warm_up) - (2 * np.arange(1, 101) / 101 - 1)).max() / 2 < 0.2
    away = rows.actions[100:] - algorithm.learner.single_module.policy.act(rows.obs[100:]).detach()
    assert away.std().item() == pytest.approx(0.05, rel=0.2) and abs(away.mean().item()) < 0.02


def test_settings_of_noise_apply_to_explorations_with_arguments():
    made = config(trainer="TD3").training(exploration_sigma=0.3, exploration_theta=0.05)
    for given, sigma, theta in (({"dt": 0.5}, 0.3, 0.05), ({"sigma": 0.7}, 0.7, 0.05)):
        copied = made.copy(copy_frozen=False).training(exploration={"type": "OrnsteinUhlenbeck", **given})
        copied.validate()
        assert (copied.exploration.sigma, copied.exploration.theta) == (sigma, theta)
    plain = config(trainer="TD3").training(exploration={"type": "OrnsteinUhlenbeck", "dt": 0.5})
    plain.validate()
    assert plain.exploration.sigma == OrnsteinUhlenbeck().sigma


@pytest.mark.slow
def test_noise_persists_within_episodes():
    made = config(trainer="DDPG").training(exploration=OrnsteinUhlenbeck(sigma=0.02, theta=0.02), updates_per_step=0)
    algorithm = trained(made.training(num_steps_sampled_before_learning_starts=0, steps_per_iteration=600))
    rows = rows_of(algorithm)
    noise = (rows.actions - algorithm.learner.single_module.policy.act(rows.obs).detach())[:, 0].numpy()
    for start in (0, 200, 400):
        assert abs(noise[start]) < 0.1  # 5 σ, where it has spread to .1 = one standard deviation before
        fresh = noise[start + 1 : start + 200] - 0.98 * noise[start : start + 199]
        assert fresh.std() == pytest.approx(0.02, rel=0.2)
    algorithm.env_runner._state.exploration._x.fill_(9.0)
    algorithm.train()
    assert algorithm.config.exploration._x is None, "runners have copies"


def test_a_configuration_as_tune_makes_it():
    """The configuration is a dict with the name of the exploration."""
    plain = config(trainer="DDPG").to_dict() | {"exploration": {"type": "Gaussian", "sigma": 0.3}, "huber_delta": 2.0}
    algorithm = DDPG(config=plain)
    assert algorithm.env_runner._state.exploration.sigma == 0.3 and isinstance(algorithm.config.exploration, Gaussian)
    assert algorithm.learner.update_rule.settings.huber_delta == 2.0


def test_flags_reach_the_configuration_and_the_update():
    made = configure(resolve_settings({"trainer": "TQC", "kappa": 0.3, "critic_l2": 0.2, "horizon": 50}))
    update = made.build_algo().learner.update_rule
    assert (update.settings.kappa, made.env_config) == (0.3, {"max_episode_steps": 50})
    assert [update.optimizers[name].param_groups[0]["weight_decay"] for name in ("actor", "critic")] == [0.0, 0.2]


def test_rllibs_own_forward_methods():
    module = config(trainer="TD3").build_algo().learner.single_module
    obs = {"obs": torch.randn(2_000, 3)}
    best, tried = (f(obs)["actions"] for f in (module.forward_inference, module.forward_exploration))
    assert torch.equal(best, module.policy.act(obs["obs"]))
    assert (tried - best).std().item() == pytest.approx(0.1, rel=0.1)


@pytest.mark.parametrize("trainer", ["TD3", "DDPG"])
def test_elite_compares_actions_and_rejects_kl(trainer):
    algorithm, _ = run(config(buffer="Elite", trainer=trainer).training(updates_per_step=0))
    storage, selector = algorithm.replay_buffer.storage, algorithm.replay_buffer.selector
    off = selector.row_distances(storage, torch.arange(150))
    assert torch.equal(storage.column("extras.behavior")[:50], torch.zeros(50, 1))
    assert (off[50:] < 1e-6).all() and (off[:50] > 1e-6).all()
    with pytest.raises(ValueError, match='distance is "kl" and the policy is not a distribution'):
        config(buffer="Elite", trainer=trainer, distance="kl").build_algo()


@pytest.mark.parametrize("trainer", CONFIGS)
def test_command_line_defaults_equal_the_configurations(trainer):
    settings = resolve_settings({"trainer": trainer, "env": "HalfCheetah-v5"})
    made = CONFIGS[trainer]()
    for name, value in algorithm_settings(settings).items():
        assert (tuple(value) if name == "hiddens" else value) == getattr(made, name), name
    assert settings.train_batch_size == made.train_batch_size_per_learner
    assert set(ALGORITHMS[trainer].defaults) <= set(vars(settings))


@pytest.mark.parametrize(
    ("trainer", "settings", "message"),
    [
        ("TD3", {"exploration": {"type": "Gaussian"}, "exploration_theta": 0.3}, "is Gaussian, which has no theta"),
        ("TD3", {"exploration": "Greedy", "exploration_sigma": 0.3}, "exploration is Greedy, which has no sigma"),
        ("TD3", {"exploration": Random(), "exploration_sigma": 0.3}, "exploration is Random, which has no sigma"),
        ("DDPG", {"exploration": "Gausian"}, "there is no exploration 'Gausian'.*Gaussian"),
        ("DDPG", {"weight_decay": 0.1}, "weight_decay is 0.1 and critic_l2 0.01; expected one of them 0"),
        ("TQC", {"drop_per_critic": 25}, "drop_per_critic is 25; expected less than n_quantiles, 25"),
    ],
)
def test_invalid_settings_are_rejected_by_name(trainer, settings, message):
    with pytest.raises(ValueError, match=message):
        config(trainer=trainer).training(**settings).validate()


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


def test_scores_that_an_algorithm_lacks_are_rejected():
    """It has no target networks, or a quantile loss."""
    for buffer, trainer, score in (("ReLo", "CrossQ", "reducible_loss"), ("LA3P", "TQC", "critic_loss")):
        with pytest.raises(ValueError, match=f"{buffer} requires {score}, which {trainer} does not provide"):
            config(buffer=buffer, trainer=trainer).build_algo()


def test_settings_reach_networks_and_updates_of_tqc_and_crossq():
    made = config(trainer="TQC").training(n_critics=3, n_quantiles=7, drop_per_critic=1, kappa=0.5)
    learner = made.build_algo().learner
    nets = learner.single_module.nets
    assert (learner.update_rule.settings.drop_per_critic, learner.update_rule.settings.kappa) == (1, 0.5)
    assert tuple(nets.critics.weights[-1].shape) == (3, 32, 7) == tuple(nets.targets.weights[-1].shape)
    made = config(trainer="CrossQ").training(policy_delay=2, renorm_warm_up=7, activation="tanh")
    learner = made.build_algo().learner
    update = learner.update_rule
    nets = learner.single_module.nets
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
