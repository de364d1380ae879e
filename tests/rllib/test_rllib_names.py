"""Settings by RLlib's names: translated, or rejected with their replacements in one message."""

import inspect
from pathlib import Path

import pytest
from ray import tune
from ray.rllib.algorithms.dqn import DQNConfig as StockDQNConfig
from ray.rllib.algorithms.sac import SACConfig as StockSACConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.utils.replay_buffers import EpisodeReplayBuffer, PrioritizedEpisodeReplayBuffer

from interreplay.errors import UsageError
from interreplay.experiments.rllib_command.experiments import configure, make_default_config
from interreplay.rllib import C51Config, DQNConfig, RainbowConfig, ReplayBuffer, SACConfig, TD3Config, TQCConfig
from interreplay.rllib.algorithms.rllib_settings import BUFFERS, NAMES

HALF_AS_OFTEN = {"target_network_update_freq": 200, "training_intensity": 64, "train_batch_size": 128}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from.md"


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (DQNConfig, {"double_q": True}, {"double": True}),
        (DQNConfig, {"num_atoms": 21, "v_min": 0, "v_max": 200.0}, {"distribution": "categorical", "atoms": 21}),
        (C51Config, {"v_max": 200.0, "v_min": 0}, {"value_range": (0, 200.0)}),
        (C51Config, {"num_atoms": 1}, {"distribution": "mean"}),
        (DQNConfig, {"epsilon": [(0, 1), (9, 0.1)]}, {"initial_epsilon": 1, "final_epsilon": 0.1, "epsilon_steps": 9}),
        (DQNConfig, {"epsilon": 0.1}, {"initial_epsilon": 0.1, "final_epsilon": 0.1}),
        (DQNConfig, {"adam_epsilon": 1e-7}, {"optimizer_eps": 1e-7}),
        (DQNConfig, {"td_error_loss_fn": "mse"}, {"huber_delta": None}),
        (DQNConfig, {"td_error_loss_fn": "huber"}, {"huber_delta": 1.0}),
        (DQNConfig, HALF_AS_OFTEN, {"updates_per_step": 0.5, "target_update_period": 100}),
        (SACConfig, {"training_intensity": None, "target_network_update_freq": 1}, {"updates_per_step": 1.0}),
        (SACConfig, {"lr": None, "initial_alpha": 1.001, "actor_lr": 2e-4}, {"lr": None, "actor_lr": 2e-4}),
        (SACConfig, {"training_intensity": 512.0}, {"updates_per_step": 2.0}),
        (SACConfig, {"twin_q": False}, {"n_critics": 1}),
        (SACConfig, {"store_buffer_in_checkpoints": True, "_deterministic_loss": False}, {}),
        (TQCConfig, {"top_quantiles_to_drop_per_net": 3}, {"drop_per_critic": 3}),
        (TD3Config, {"target_noise": 0.1}, {"target_policy_noise": 0.1}),
    ],
)
def test_a_name_with_a_counterpart_is_translated(kind, given, expected):
    by_call = kind().training(**given)
    from_dictionary = kind().update_from_dict(given)
    for made in (by_call, from_dictionary):
        assert {name: getattr(made, name) for name in expected} == expected
        made.environment("CartPole-v1" if isinstance(made, DQNConfig) else "Pendulum-v1").validate()


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (SACConfig, {"model": {"fcnet_hiddens": [32]}}, "use hiddens=(256, 256) and activation"),
        (SACConfig, {"target_network_update_freq": 10}, "tau moves the targets at every update"),
        (SACConfig, {"double_q": True}, "becomes double; SAC has no double"),
        (SACConfig, {"v_max": 10.0}, "becomes the second number of value_range; SAC has no value_range"),
        (SACConfig, {"q_model_config": {}}, "use hiddens=(256, 256)"),
        (SACConfig, {"store_buffer_in_checkpoints": False}, "expected True"),
        (SACConfig, {"twin_q": True, "n_critics": 5}, "n_critics is 5, too; set one of them"),
        (SACConfig, {"train_batch_size": 64, "train_batch_size_per_learner": 16}, "set one"),
        (SACConfig, {"learning_starts": 5, "num_steps_sampled_before_learning_starts": 10}, "set one"),
        (DQNConfig, {"epsilon": [(0, 1.0), (10, 0.5), (20, 0.1)]}, "expected a number, or two points"),
        (DQNConfig, {"epsilon": tune.choice([0.1, 0.2])}, "give the search space to these settings"),
        (DQNConfig, {"td_error_loss_fn": "l1"}, "expected 'huber' or 'mse'"),
        (DQNConfig, {"categorical_dqn": True}, 'use distribution="categorical"'),
        (DQNConfig, {"prioritized_replay_alpha": 0.6}, 'use replay("PER"'),
    ],
)
def test_a_name_without_a_counterpart_is_rejected_with_its_replacement(kind, given, message):
    with pytest.raises(TypeError, match=rf"^{kind.__name__}.training rejects {next(iter(given))}=") as caught:
        kind().training(**given)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_all_rejected_and_unknown_names_are_in_one_message():
    wrong = {"tauu": 1, "q_model_config": {}, "bufer": 2, "optimization_config": {}, "target_network_update_freq": 7}
    for attempt in (lambda: SACConfig().training(**wrong), lambda: SACConfig().update_from_dict(wrong)):
        with pytest.raises(TypeError) as caught:
            attempt()
        assert all(name in str(caught.value) for name in wrong)
        assert "use actor_lr, critic_lr and alpha_lr" in str(caught.value)
        assert "has no setting 'tauu'; did you mean tau?" in str(caught.value)
    with pytest.raises(UsageError) as caught:
        configure(make_default_config("SAC", "Pendulum-v1", str), wrong)
    assert all(name in str(caught.value) for name in wrong)
    with pytest.raises(UsageError, match=r"PPO has no setting 'gama'; did you mean gamma\?; PPO has no setting 'tauu'"):
        configure(make_default_config("PPO", "CartPole-v1", str), {"gama": 1, "tauu": 1})


def test_settings_that_would_be_ignored_are_in_one_message():
    made = SACConfig().environment("Pendulum-v1").env_runners(batch_mode="complete_episodes").training(num_epochs=1)
    made.clip_rewards = True
    with pytest.raises(ValueError, match="^batch_mode is 'complete_episodes'.*clip_rewards is True.*$"):
        made.validate()


def test_the_training_intensity_of_a_dictionary_is_divided_by_its_batch_size():
    settings = StockDQNConfig().training(train_batch_size_per_learner=64, training_intensity=8).to_dict()
    left_out = {"replay_buffer_config", "lr_schedule", "store_buffer_in_checkpoints"}
    given = {name: value for name, value in settings.items() if name not in left_out}
    assert DQNConfig().update_from_dict(given).updates_per_step == 1 / 8


def test_a_configuration_of_ours_as_a_dictionary_is_understood():
    for kind in (SACConfig, DQNConfig):
        made = kind().training(tau=0.3, exploration="Random").to_dict()
        assert kind().update_from_dict(made).to_dict() == made


OF_PER = {"capacity": 99, "alpha": 1.0, "beta": 0.0}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": "PrioritizedEpisodeReplayBuffer"} | OF_PER, {"type": "PER"} | OF_PER),
        ({"type": PrioritizedEpisodeReplayBuffer, "alpha": 0.3}, {"type": "PER", "alpha": 0.3}),
        ({"type": "EpisodeReplayBuffer"}, {"type": "Uniform"}),
        ({"type": EpisodeReplayBuffer, "capacity": 5}, {"type": "Uniform", "capacity": 5}),
        ({"type": ReplayBuffer, "buffer": "NMER", "k": 3}, {"type": "NMER", "k": 3}),
        ({"type": "interreplay.rllib.ReplayBuffer", "buffer": "NMER"}, {"type": "NMER"}),
        ({"type": "ray.rllib.utils.replay_buffers.PrioritizedEpisodeReplayBuffer"}, {"type": "PER"}),
    ],
)
def test_episode_buffers_of_rllib_mean_our_methods(given, expected):
    assert SACConfig().training(replay_buffer_config=given).replay_buffer_config == expected
    assert SACConfig().update_from_dict({"replay_buffer_config": given}).replay_buffer_config == expected


def test_arguments_of_the_same_replay_method_are_kept():
    made = SACConfig().replay("NMER", k=5).training(replay_buffer_config={"capacity": 99})
    assert made.replay_buffer_config == {"type": "NMER", "k": 5, "capacity": 99}
    assert made.training(replay_buffer_config={"type": "PER"}).replay_buffer_config == {"type": "PER"}
    merged = RainbowConfig().replay_buffer_config | {"capacity": 99}
    for given in ({"capacity": 99}, {"type": "PrioritizedEpisodeReplayBuffer", "capacity": 99}):
        assert RainbowConfig().training(replay_buffer_config=given).replay_buffer_config == merged
        assert RainbowConfig().update_from_dict({"replay_buffer_config": given}).replay_buffer_config == merged
    made = RainbowConfig().replay("PER", capacity=99).to_dict()
    assert RainbowConfig.from_dict(made).replay_buffer_config == {"type": "PER", "capacity": 99}


def test_a_search_space_over_a_setting_by_rllibs_name_is_one_over_ours():
    made = DQNConfig().training(double_q=tune.grid_search([True, False]), adam_epsilon=tune.loguniform(1e-8, 1e-6))
    assert made.double == {"grid_search": [True, False]}
    assert 1e-8 <= made.optimizer_eps.sample() <= 1e-6


def test_the_page_for_users_of_rllib_has_the_same_table():
    page = PAGE.read_text()
    becomes = 'becomes `"{}"`, with the same arguments'
    rows = [f"| `{name}` | {text} |" for name, text in NAMES.items()]
    rows += [f'| `{{"type": "{name}"}}` | {becomes.format(ours)} |' for name, ours in BUFFERS.items()]
    assert "\n".join(rows) in page


def test_every_name_of_rllibs_sac_and_dqn_is_a_setting_or_in_the_table():
    for stock, ours in ((StockSACConfig, SACConfig), (StockDQNConfig, DQNConfig)):
        names = set(inspect.signature(stock.training).parameters) - {"self", "kwargs"}
        of_the_base_class = {"clip_actions"}
        assert names <= set(inspect.signature(ours.training).parameters) | set(NAMES) | of_the_base_class


def test_a_tuned_script_is_understood_after_another_import():
    """RLlib's tuned settings of DQN for CartPole."""
    replay = {"type": "PrioritizedEpisodeReplayBuffer", "capacity": 50_000, "alpha": 0.6, "beta": 0.4}
    made = DQNConfig().environment(env="CartPole-v1")
    made.training(lr=0.0005, train_batch_size_per_learner=32, replay_buffer_config=replay, n_step=(2, 5))
    made.training(double_q=True, dueling=True, epsilon=[(0, 1.0), (10_000, 0.02)])
    zeros = {"fcnet_bias_initializer": "zeros_", "head_fcnet_bias_initializer": "zeros_"}
    model = DefaultModelConfig(fcnet_hiddens=[256], fcnet_activation="tanh", head_fcnet_hiddens=[256], **zeros)
    with pytest.warns(UserWarning, match="initializer has no effect; weights start as in the algorithm's paper"):
        algorithm = made.rl_module(model_config=model).build_algo()
    read = algorithm.config
    assert (read.hiddens, read.double, read.dueling, read.final_epsilon) == ([256, 256], True, True, 0.02)
    assert type(algorithm.replay_buffer).__name__ == "PER" and algorithm.replay_buffer.view.n_step in range(2, 6)
