"""Evaluations of environments whose episodes may never end: they have a limit, and a request to stop ends them."""

import logging

import failing_envs
import gymnasium as gym
import pytest

from interreplay.rllib.env_runner import runner
from tests.rllib import small_runs


class Endless(failing_envs.Counting):
    """Environment without ends of episodes; it calls `noticed` at a certain step of an evaluation."""

    noticed = None

    def step(self, action):
        if self.noticed is not None and self.steps == 30:
            type(self).noticed()
        return super().step(action)


LIMITED = "interreplay_tests/Limited-v0"
gym.register(LIMITED, Endless, max_episode_steps=25)


@pytest.fixture(autouse=True)
def quiet():
    yield
    Endless.noticed = None


def config(env=Endless, **evaluation):
    made = small_runs.config(env).environment(env_config={"length": None} if isinstance(env, type) else {})
    made.training(learning_starts=10, steps_per_iteration=20)
    return made.evaluation(evaluation_interval=1, evaluation_duration=2, **evaluation)


@pytest.mark.parametrize("envs", [1, 3])
def test_endless_episodes_are_cut_with_a_warning(envs, monkeypatch, caplog):
    monkeypatch.setattr(runner, "STEPS_OF_ENDLESS_EPISODES", 60)
    with caplog.at_level(logging.WARNING):
        algorithm = config(evaluation_config={"num_envs_per_env_runner": envs, "explore": False}).build_algo()
        result = algorithm.train()
    evaluated = result["evaluation"]["env_runners"]
    assert evaluated["episode_len_mean"] == 60 == evaluated["episode_return_mean"]
    assert evaluated["num_episodes"] >= 2
    (line,) = [record.getMessage() for record in caplog.records if "--horizon" in record.getMessage()]
    assert "an episode of Endless was cut after 60 steps of evaluation" in line and "\n" not in line
    rows = algorithm.replay_buffer.storage.column("truncated")[: algorithm.env_steps]
    assert not rows.any(), "training knows no such limit"


def test_a_time_limit_of_the_environment_is_respected(monkeypatch):
    monkeypatch.setattr(runner, "STEPS_OF_ENDLESS_EPISODES", 10)
    algorithm = config(LIMITED).build_algo()
    assert algorithm.train()["evaluation"]["env_runners"]["episode_len_mean"] == 5


def test_a_limit_can_be_set():
    algorithm = config(evaluation_max_episode_steps=15).build_algo()
    assert algorithm.train()["evaluation"]["env_runners"]["episode_len_mean"] == 15
    with pytest.raises(ValueError, match="evaluation_max_episode_steps is 0; expected a whole number of at least 1"):
        config(evaluation_max_episode_steps=0).build_algo()


def test_a_stop_request_ends_an_evaluation_and_the_next_one_is_complete():
    algorithm = config(evaluation_max_episode_steps=10**9).build_algo()
    Endless.noticed = algorithm.request_stop
    result = algorithm.train()
    assert "evaluation" not in result and algorithm.env_steps == 20
    Endless.noticed = None
    algorithm.eval_env_runner.config.evaluation_max_episode_steps = 40
    result = algorithm.train()
    assert result["evaluation"]["env_runners"]["episode_len_mean"] == 40
    assert result["evaluation"]["env_runners"]["num_episodes"] == 2
    algorithm.request_stop()
    algorithm.evaluate()
    assert not algorithm.stop_requested


@pytest.mark.parametrize(("env", "ends"), [(Endless, True), (LIMITED, False)])
def test_only_endless_evaluations_are_interrupted_if_requested(env, ends):
    algorithm = config(env).build_algo()
    algorithm.interrupt_evaluation(only_endless=True)
    assert algorithm.eval_env_runner.interrupted is ends
