"""RLlib's stock algorithms learn from our buffers: configurations, short trainings, checkpoints."""

import numpy as np
import pytest
from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.algorithms.sac import SACConfig

from interreplay.rllib.stock.buffer import ReplayBuffer
from interreplay.rllib.stock.configs import (
    DOTTED,
    ReplayMixin,
    StockDQNConfig,
    StockSAC,
    StockSACConfig,
    StockTQCConfig,
)
from replay_buffers import NMER, PER


class Mine(ReplayMixin, SACConfig):
    """Replay method of a user."""


CONTINUOUS = [StockSACConfig, StockTQCConfig, Mine]


# --- configurations ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", CONTINUOUS)
@pytest.mark.parametrize("kind", ["NMER", NMER, lambda capacity, k: NMER(capacity=capacity, k=k)])
def test_replay_and_replay_buffer_config_are_equivalent(config, kind):
    one = config().environment("Pendulum-v1").replay(kind, capacity=500, k=4)
    two = config().environment("Pendulum-v1").training(replay_buffer_config={"type": kind, "capacity": 500, "k": 4})
    for made in (one, two):
        made.validate()
        assert made.replay_buffer_config == {"type": DOTTED, "buffer": kind, "capacity": 500, "k": 4}
        assert made.store_buffer_in_checkpoints
        made.validate()


@pytest.mark.parametrize("config", CONTINUOUS)
def test_the_buffer_is_not_saved_on_request(config):
    left_out = {"store_buffer_in_checkpoints": False}
    for made in (
        config().training(replay_buffer_config={"type": "NMER", "capacity": 500}, **left_out),
        config().update_from_dict({"replay_buffer_config": {"type": "NMER", "capacity": 500}, **left_out}),
        config().replay("NMER").training(**left_out),
        config().training(**left_out).replay("NMER"),
    ):
        made.environment("Pendulum-v1").validate()
        assert made.replay_buffer_config["buffer"] == "NMER" and made.store_buffer_in_checkpoints is False


def test_a_second_replay_replaces_the_first():
    config = StockSACConfig().replay("PER", capacity=9, alpha=0.1).replay("NMER", k=2)
    assert config.replay_buffer_config == {"type": DOTTED, "buffer": "NMER", "k": 2}


def test_the_seed_follows_the_configuration():
    config = StockSACConfig().environment("Pendulum-v1").replay("PER").debugging(seed=5)
    config.validate()
    assert config.replay_buffer_config["seed"] == 5
    config = StockSACConfig().environment("Pendulum-v1").replay("PER", seed=1).debugging(seed=5)
    config.validate()
    assert config.replay_buffer_config["seed"] == 1


@pytest.mark.parametrize("config", [StockSACConfig, StockDQNConfig])
def test_stock_buffers_are_unchanged(config):
    made = config().environment("Pendulum-v1")
    before = dict(made.replay_buffer_config)
    made.validate()
    assert made.replay_buffer_config == before and not made.store_buffer_in_checkpoints


@pytest.mark.parametrize(
    "kind, arguments, message",
    [
        ("NMRE", {}, "did you mean NMER"),
        ("NMER", {"kk": 1}, "did you mean k"),
        ("NMER", {"gamma": 0.9}, "config.training"),
        ("interreplay.rlib.ReplayBuffer", {}, "no replay buffer 'interreplay.rlib"),
    ],
)
def test_bad_configurations_are_named(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        StockSACConfig().replay(kind, **arguments)
    with pytest.raises(ValueError, match=message):
        StockSACConfig().training(replay_buffer_config={"type": kind, **arguments}).validate()


def test_rllibs_own_checks_remain():
    config = StockSACConfig().environment("Pendulum-v1").replay("PER").training(grad_clip=-1.0)
    with pytest.raises(ValueError, match="grad_clip"):
        config.validate()
    assert config.replay_buffer_config["type"] == DOTTED


# --- trainings ---------------------------------------------------------------------------------------------------


def short(config, env):
    return (
        config.environment(env)
        .env_runners(num_env_runners=0)
        .training(num_steps_sampled_before_learning_starts=40, train_batch_size_per_learner=32)
        .reporting(min_sample_timesteps_per_iteration=60, min_time_s_per_iteration=0)
        .debugging(seed=0)
    )


BY_CLASS = {"type": ReplayBuffer, "buffer": "NMER", "capacity": 1000, "k": 3}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "buffer", "core"),
    [
        (Mine, {"type": "NMER", "capacity": 1000}, NMER),
        (StockTQCConfig, {"type": "PER", "capacity": 1000}, PER),
        (SACConfig, BY_CLASS, NMER),  # of RLlib itself
    ],
)
def test_sac_and_tqc_train(config, buffer, core):
    made = short(config(), "Pendulum-v1").training(replay_buffer_config=buffer)
    assert config is not SACConfig or made.replay_buffer_config == BY_CLASS, "no argument of RLlib's buffer is merged"
    algorithm = made.build_algo()
    result = algorithm.train()
    assert np.isfinite(result["learners"]["default_policy"]["total_loss"])
    assert result["replay_buffer"]["num_env_steps_stored"] > 0
    inside = algorithm.local_replay_buffer.buffer
    assert isinstance(inside, core) and len(inside) == 60
    if core is PER:
        assert len(inside.selector.priorities(np.arange(60)).unique()) > 10, "TD errors arrived"


@pytest.mark.slow
@pytest.mark.parametrize("as_dict", [False, True], ids=["config", "dict, as Tune hands it over"])
def test_stock_dqn_trains_by_dotted_string(as_dict):
    buffer = {"type": "interreplay.rllib.ReplayBuffer", "buffer": "PER", "capacity": 1000, "alpha": 0.5, "beta": 0.4}
    config = short(DQNConfig(), "CartPole-v1").training(replay_buffer_config=buffer, n_step=3)
    algorithm = DQN(config=config.to_dict()) if as_dict else config.build_algo()
    for _ in range(2):
        assert np.isfinite(algorithm.train()["learners"]["default_policy"]["total_loss"])
    inside = algorithm.local_replay_buffer.buffer
    assert isinstance(inside, PER) and len(inside) >= 120 and inside.view.n_step == 3


@pytest.mark.slow
def test_a_checkpoint_of_a_stock_algorithm_contains_the_buffer(tmp_path):
    algorithm = short(StockSACConfig(), "Pendulum-v1").replay("PER", capacity=1000).build_algo()
    algorithm.train()
    again = StockSAC.from_checkpoint(algorithm.save_to_path(tmp_path / "checkpoint"))
    rows = [
        [(e.get_observations(0).tobytes(), e.get_rewards(0)) for e in a.local_replay_buffer.sample(50, n_step=1)]
        for a in (algorithm, again)
    ]
    assert rows[0] == rows[1]
    again.train()
    assert len(again.local_replay_buffer) == 120
    algorithm.set_state(again.get_state())
    assert len(algorithm.local_replay_buffer) == 120
