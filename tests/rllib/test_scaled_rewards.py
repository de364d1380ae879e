"""Rewards scaled by the running deviation of the return, in whole runs of every family of algorithms."""

import gymnasium as gym
import numpy as np
import pytest
from offline_data import episodes, minari_dataset

from interreplay.learning.networks.normalization import RewardScale
from interreplay.rllib import QRDQNConfig
from tests.rllib.small_runs import config, continued, rows_of, run, same, trained, weights

# Algorithm, environment, replay method and settings: each kind of critics once, each with another method.
FAMILIES = [
    ("SAC", "Pendulum-v1", "NMER", {"n_step": 3}),
    ("TQC", "Pendulum-v1", "PER", {}),
    ("TD3", "Pendulum-v1", "LaBER", {}),
    ("QRDQN", "CartPole-v1", "LAP", {"n_step": 3}),
]
NAMES = [f"{trainer}-{env}-{buffer}" for trainer, env, buffer, _ in FAMILIES]


def loud(env, factor):
    return gym.wrappers.TransformReward(gym.make(env), lambda reward: factor * reward)


gym.register("Loud-v0", loud)


def made(trainer, env, buffer, settings, scale=True, factor=None):
    if trainer == "QRDQN":
        found = QRDQNConfig().environment(env).replay(buffer, capacity=5_000).debugging(seed=0)
        found.training(hiddens=(32,), learning_starts=50, steps_per_iteration=75, train_batch_size=16)
    else:
        found = config(env, buffer, trainer=trainer)
    if factor is not None:
        found.environment(f"{__name__}:Loud-v0", env_config={"env": env, "factor": factor})
    return found.training(**settings, scale_rewards=scale)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES, ids=NAMES)
def test_weights_are_independent_of_the_unit_of_rewards(family, monkeypatch):
    monkeypatch.setattr(RewardScale, "EPSILON", 0.0)  # the rest is exact for powers of 2
    one, other = (trained(made(*family, factor=factor)) for factor in (1.0, 1024.0))
    assert other.learner.reward_scale.divisor == 1024.0 * one.learner.reward_scale.divisor
    assert same(weights(one), weights(other))


@pytest.mark.slow
def test_a_resumed_run_is_bit_exact(tmp_path):
    straight, resumed = continued(lambda: made(*FAMILIES[3]).build_algo(), tmp_path / "c")
    assert resumed.learner.reward_scale.divisor == straight.learner.reward_scale.divisor
    assert same(weights(straight), weights(resumed))


@pytest.mark.slow
def test_results_and_stored_rows_keep_unscaled_rewards():
    algorithm, results = run(made("SAC", "Pendulum-v1", "Uniform", {}), 3)
    rewards = rows_of(algorithm).rewards.tolist()
    assert results[-1]["env_runners"]["episode_return_mean"] == pytest.approx(sum(rewards[:200]), rel=1e-5)
    scale = RewardScale(algorithm.config.gamma)
    scale.observe(rows_of(algorithm))
    divisor = algorithm.learner.reward_scale.divisor
    assert divisor == results[-1]["replay_buffer"]["reward_divisor"] == pytest.approx(scale.divisor) != 1.0
    algorithm.evaluate()
    assert algorithm.learner.reward_scale.divisor == divisor


def test_all_environments_share_one_scale():
    settings = made("SAC", "CartPole-v1", "Uniform", {})
    settings.env_runners(num_envs_per_env_runner=3, rollout_fragment_length=4)
    algorithm = trained(settings, 2)
    lengths = np.unique(rows_of(algorithm).episode.numpy(), return_counts=True)[1]
    returns = [(1 - 0.99**step) / 0.01 for length in lengths for step in range(1, length + 1)]
    expected = max(np.std(returns), max(returns) / 5)
    assert algorithm.learner.reward_scale.divisor == pytest.approx(expected, rel=1e-5)


def test_recorded_rows_initialize_the_statistics(minari_folder):
    name = minari_dataset(episodes(4, 30))
    settings = config(trainer="TD3").replay("Offline", data=f"minari:{name}")
    algorithm = settings.training(collect=False, scale_rewards=True, anneal_steps=300).build_algo()
    scale = RewardScale(algorithm.config.gamma)
    scale.observe(rows_of(algorithm))
    assert algorithm.learner.reward_scale.divisor == scale.divisor != 1.0
    assert not algorithm.learner.reward_scale._returns
