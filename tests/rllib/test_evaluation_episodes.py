"""Evaluations: the episodes that they use, their metrics, and limits of episodes that may never end."""

import logging
from itertools import count

import failing_envs
import gymnasium as gym
import numpy as np
import pytest
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from interreplay.experiments.evaluation.video import EvaluationVideo
from interreplay.learning.setting_fields import SEED
from interreplay.rllib import DQNConfig, IMPALAConfig, SACConfig
from interreplay.rllib.env_runner import runner as runner_module
from tests.rllib.small_runs import config, run, same, weights

ID = "interreplay_tests/LongAndShort-v0"


def length_of(number):
    return 30 if number % 3 == 0 else 2


class LongAndShort(failing_envs.Counting):
    """Environment that numbers episodes from 1 over all copies; every third has 30 steps, others 2."""

    numbers = count(1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episodes = next(self.numbers)
        self.length = length_of(self.episodes)
        return self.observation(), {}


@pytest.fixture(autouse=True)
def numbered():
    LongAndShort.numbers = count(1)
    gym.register(ID, LongAndShort)
    yield
    gym.registry.pop(ID)


def build(envs, kind=SACConfig, **settings):
    made = kind().environment(ID).env_runners(num_envs_per_env_runner=envs)
    return made.training(hiddens=(8,), **settings).debugging(seed=0).build_algo()


def test_the_largest_seed_trains_and_evaluates():
    made = SACConfig().environment(ID).evaluation(evaluation_interval=1, evaluation_duration=2)
    algorithm = made.training(hiddens=(8,), steps_per_iteration=10).debugging(seed=SEED.high).build_algo()
    assert algorithm.train()["evaluation"]["env_runners"]["num_episodes"] == 2


@pytest.mark.parametrize(("interval", "explores"), [(None, False), (None, True), (1, False)])
def test_evaluations_explore_only_if_they_are_configured_to(interval, explores):
    made = SACConfig().environment(ID).training(hiddens=(8,), steps_per_iteration=10)
    made.evaluation(evaluation_interval=interval, evaluation_duration=12, evaluation_config={"explore": explores})
    algorithm = made.build_algo()
    runner = algorithm.env_runner if interval is None else algorithm.eval_env_runner
    seen = []
    act = runner._act
    runner._act = lambda random_actions, explore: (seen.append(explore), act(random_actions, explore))[1]
    LongAndShort.numbers = count(1)
    found = algorithm.evaluate()["env_runners"]
    assert set(seen) == {explores} and found["num_episodes"] == 12
    assert found["episode_return_mean"] == pytest.approx(np.mean([length_of(i) for i in range(1, 13)]))
    seen.clear()
    algorithm.train()
    assert interval or set(seen) == {True}


def test_metrics_of_runners_are_merged_over_episodes():
    algorithm = build(1)
    answers = []
    for episodes in (5, 1):  # lengths 2, 2, 30, 2, 2 and 30
        algorithm.env_runner.sample(num_episodes=episodes)
        answers.append(algorithm.env_runner.get_metrics())
    merged = MetricsLogger(root=True)
    merged.aggregate(answers)
    found = merged.reduce(compile=True)
    assert found["episode_return_mean"] == found["episode_len_mean"] == pytest.approx(68 / 6)
    assert (found["episode_return_min"], found["episode_return_max"]) == (2, 30)
    algorithm.env_runner.sample(num_timesteps=1)
    merged.aggregate([algorithm.env_runner.get_metrics()])
    assert np.isnan(merged.reduce(compile=True)["episode_return_mean"])


class Successful(LongAndShort):
    """`LongAndShort` in which every third episode, a long one, is a success."""

    def step(self, action):
        *outcome, _ = super().step(action)
        return *outcome, {"is_success": self.length == 30}


def test_success_rate_and_returns_are_of_the_same_episodes():
    made = SACConfig().environment(Successful).training(hiddens=(8,))
    runner = made.reporting(metrics_num_episodes_for_smoothing=5).build_algo().env_runner
    one_of_two = runner.config.copy(copy_frozen=False)
    one_of_two.num_env_runners = 2
    for reporting, episodes in ((runner.config, 5), (one_of_two, 3)):
        runner.config = reporting
        LongAndShort.numbers = count(1)
        runner._needs_initial_reset = True
        runner.collect(2 + 2 + 30 + 2 + 2 + 30 + 2)
        reported = runner.get_metrics()
        assert len(reported["success_rate"].values) == len(reported["episode_return_mean"].values) == episodes
        lengths = [length_of(number) for number in range(8 - episodes, 8)]
        assert reported["episode_return_mean"].peek() == pytest.approx(np.mean(lengths))
        assert reported["success_rate"].peek() == pytest.approx(np.mean(np.equal(lengths, 30)))


def test_evaluations_without_interval_keep_the_metrics_of_training_apart():
    algorithm = build(1)
    runner = algorithm.env_runner
    runner.collect(5)  # two episodes
    found = algorithm.evaluate()["env_runners"]
    assert found["num_episodes"] == 10
    play = runner._play

    def interrupted(*arguments):
        play(*arguments)
        raise KeyboardInterrupt

    runner._play = interrupted
    with pytest.raises(KeyboardInterrupt):
        algorithm.evaluate()
    reported = runner.get_metrics()
    assert (reported["num_episodes"].peek(), reported["num_env_steps_sampled"].peek()) == (2, 5)


@pytest.mark.parametrize("interval", [1, None])
def test_evaluations_that_explore_follow_the_schedule_of_the_run(interval):
    made = DQNConfig().environment("CartPole-v1").evaluation(evaluation_duration=1, evaluation_interval=interval)
    made.evaluation(evaluation_config={"explore": True}).training(hiddens=(8,), steps_per_iteration=10)
    algorithm = made.training(initial_epsilon=1.0, final_epsilon=0.2, epsilon_steps=20).build_algo()
    epsilons = []
    for _ in range(3):
        algorithm.train()
        runner = algorithm.eval_env_runner
        if interval is None:
            runner = algorithm.env_runner
            algorithm.evaluate()  # in the environments of training
        epsilons.append(runner._state.exploration.epsilon)
    assert epsilons == pytest.approx([0.6, 0.2, 0.2])


@pytest.mark.parametrize(
    ("kind", "envs", "episode_count"),
    [(SACConfig, 1, 5), (SACConfig, 4, 4), (SACConfig, 4, 13), (SACConfig, 8, 3), (IMPALAConfig, 4, 6)],
)
def test_an_evaluation_uses_the_first_episodes_that_begin(kind, envs, episode_count):
    algorithm = build(envs, kind)
    for _ in range(2):  # the second evaluation begins like the first
        LongAndShort.numbers = count(1)
        episodes = algorithm.env_runner.sample(num_episodes=episode_count, explore=False)
        returns = {int(episode.get_observations(0)[0]): episode.get_return() for episode in episodes}
        assert returns == {number: length_of(number) for number in range(1, episode_count + 1)}
        metrics = algorithm.env_runner.get_metrics()
        assert metrics["num_episodes"].peek() == episode_count
        assert metrics["num_env_steps_sampled"].peek() == sum(returns.values())


def test_training_continues_in_all_environments_after_an_evaluation():
    algorithm = build(4, num_steps_sampled_before_learning_starts=1_000, steps_per_iteration=64)
    algorithm.env_runner.sample(num_episodes=2)
    algorithm.train()
    rows = algorithm.replay_buffer.storage
    # A round steps all four environments, except those that only reset, so an iteration can end at up to 67 steps.
    assert 64 <= algorithm.env_steps < 64 + 4
    assert len(set(rows.column("episode")[:4].tolist())) == 4


def evaluated(envs, video=False):
    """Return the returns of two evaluations of five short episodes, and the weights before each."""
    made = config("Pendulum-v1").environment(env_config={"max_episode_steps": 30})
    made.training(steps_per_iteration=20, num_steps_sampled_before_learning_starts=10)
    made.evaluation(evaluation_interval=1, evaluation_duration=5)
    made.evaluation(evaluation_config={"explore": False, "num_envs_per_env_runner": envs})
    if video:
        EvaluationVideo(made)
    algorithm, results = run(made)
    found = [result["evaluation"]["env_runners"] for result in results]
    returns = [[each[f"episode_return_{what}"] for what in ("mean", "min", "max")] for each in found]
    return returns, weights(algorithm)


@pytest.mark.slow
def test_evaluations_are_independent_of_the_number_of_environments_and_videos():
    returns, learned = evaluated(1)
    assert returns[0] != returns[1] and returns[0][1] < returns[0][2]
    for others, learned_there in (evaluated(3), evaluated(1, video=True)):
        assert others == returns and same(learned, learned_there)


def test_evaluations_keep_no_steps(monkeypatch):
    """The observations and infos of their episodes could exceed the memory."""
    algorithm = build(2)
    episodes = algorithm.env_runner.sample(num_episodes=4, explore=False)
    monkeypatch.setattr(algorithm.env_runner, "_new_episode", lambda i: pytest.fail("an episode was built"))
    LongAndShort.numbers = count(1)
    found = algorithm.evaluate()["env_runners"]
    assert (found["num_episodes"], found["num_env_steps_sampled"]) == (10, 3 * 30 + 7 * 2)
    monkeypatch.undo()
    LongAndShort.numbers = count(1)
    again = algorithm.env_runner.sample(num_episodes=4, explore=False)
    assert list(map(len, again)) == list(map(len, episodes))
    assert again[0].get_observations().shape == (len(again[0]) + 1, 2)


def test_sample_by_steps_returns_enough_steps():
    algorithm = build(4)
    episodes = algorithm.env_runner.sample(num_timesteps=200)
    assert sum(map(len, episodes)) >= 200


@pytest.mark.slow
def test_evaluations_of_a_remote_runner_continue_after_a_resume(tmp_path):
    made = config().evaluation(evaluation_duration=1, evaluation_interval=1, evaluation_num_env_runners=1)
    algorithm = made.build_algo()

    def evaluated():
        return algorithm.evaluate()["env_runners"]["episode_return_mean"]

    first = evaluated()
    algorithm.save_to_path(tmp_path / "checkpoint")
    second = evaluated()
    algorithm.restore_from_path(tmp_path / "checkpoint")
    assert evaluated() == second != first


class Endless(failing_envs.Counting):
    """Environment without ends of episodes; it calls `noticed` at a certain step of an evaluation."""

    noticed = None

    def step(self, action):
        if self.noticed is not None and self.steps == 30:
            type(self).noticed()
        return super().step(action)


LIMITED = "interreplay_tests/Limited-v0"
gym.register(LIMITED, Endless, max_episode_steps=25)


@pytest.fixture
def quiet():
    yield
    Endless.noticed = None


def endless(env=Endless, **evaluation):
    made = config(env).environment(env_config={"length": None} if isinstance(env, type) else {})
    made.training(learning_starts=10, steps_per_iteration=20)
    return made.evaluation(evaluation_interval=1, evaluation_duration=2, **evaluation)


@pytest.mark.parametrize("envs", [1, 3])
def test_endless_episodes_are_cut_with_a_warning(envs, monkeypatch, caplog):
    monkeypatch.setattr(runner_module, "STEPS_OF_ENDLESS_EPISODES", 60)
    with caplog.at_level(logging.WARNING):
        made = endless(evaluation_config={"num_envs_per_env_runner": envs, "explore": False})
        algorithm, (result,) = run(made, 1)
    evaluated = result["evaluation"]["env_runners"]
    assert evaluated["episode_len_mean"] == 60 == evaluated["episode_return_mean"]
    assert evaluated["num_episodes"] >= 2
    (line,) = [record.getMessage() for record in caplog.records if "--horizon" in record.getMessage()]
    assert "an episode of Endless was cut after 60 steps of evaluation" in line and "\n" not in line
    rows = algorithm.replay_buffer.storage.column("truncated")[: algorithm.env_steps]
    assert not rows.any(), "training knows no such limit"


def test_limits_of_the_environment_and_of_the_configuration_are_respected(monkeypatch, caplog):
    monkeypatch.setattr(runner_module, "STEPS_OF_ENDLESS_EPISODES", 10)
    for made, length in ((endless(LIMITED), 5), (endless(evaluation_max_episode_steps=15), 15)):
        assert made.build_algo().train()["evaluation"]["env_runners"]["episode_len_mean"] == length
    assert "was cut" not in caplog.text, "the limits were chosen"
    with pytest.raises(ValueError, match="evaluation_max_episode_steps is 0; expected a whole number of at least 1"):
        endless(evaluation_max_episode_steps=0).build_algo()


def test_a_stop_request_ends_an_evaluation_and_the_next_one_is_complete(quiet):
    algorithm = endless(evaluation_max_episode_steps=10**9).build_algo()
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
    algorithm = endless(env).build_algo()
    algorithm.interrupt_evaluation(only_endless=True)
    assert algorithm.eval_env_runner.interrupted is ends
