"""Environments that raise errors or return invalid values cause one named error, and earlier rows can be saved."""

import gc
import sys

import failing_envs
import gymnasium as gym
import pytest
import torch
from gymnasium.vector import SyncVectorEnv

from interreplay.errors import EnvironmentFailure, InterreplayError, NonFiniteError
from tests.rllib import small_runs
from tests.rllib.small_runs import restored, rows_of


def config(env, **env_config):
    made = small_runs.config(env).environment(env_config=env_config)
    return made.training(learning_starts=10, steps_per_iteration=50)


FAILURES = [
    (failing_envs.Raises, "raised RuntimeError: the motor burnt out", 6),
    (failing_envs.RaisesInReset, "raised OSError: no contact to the robot", 5),
    (failing_envs.RaisesNotPicklable, "raised NotPicklable: the motor is hot", 6),
    (failing_envs.Exits, "raised SystemExit: the license is missing", 6),
    (failing_envs.ResetWithoutSeed, "unexpected keyword argument 'seed' in reset", 0),
    (failing_envs.FourValues, "returned 4 values in step; expected five", 6),
    (failing_envs.AnotherShape, r"returned an observation of shape \(3,\); its observation space has \(2,\)", 6),
    (failing_envs.RoundedObservation, r"\[0\.5 1\. \], which its observation space of uint8 cannot hold", 6),
    (failing_envs.AnotherChoiceOfPart, r"the part 'mode' of the observation \[3 1\], which is not in its obs", 6),
    (failing_envs.ChoiceInAnArray, r"the observation \[3\], which is not in its observation space Discrete\(100\)", 6),
    (failing_envs.AnotherChoiceInFirstReset, r"the observation -1, which is not in its observation space Discrete", 0),
    (failing_envs.AnotherChoice, r"the observation 100, which is not in its observation space Discrete\(100\)", 6),
    (failing_envs.AnotherShapeOfPart, r"the part 'step' of the observation with shape \(\); its observation space", 0),
    (failing_envs.OnlyObservationInReset, "returned a ndarray in reset; expected two: observation, info", 0),
    (failing_envs.RewardArray, r"returned the reward array\(\[1\.\]\); expected one number", 6),
    (failing_envs.RewardDigits, "returned the reward '-1'; expected one number", 6),
    (failing_envs.NoReward, "returned the reward None; expected one number", 6),
]


@pytest.mark.parametrize(("env", "message", "rows"), FAILURES, ids=[env.__name__ for env, _, _ in FAILURES])
def test_one_error_reports_the_cause_and_the_step(env, message, rows):
    algorithm = config(env).build_algo()
    with pytest.raises(EnvironmentFailure, match=message) as caught:
        algorithm.train()
    error = caught.value
    assert isinstance(error, InterreplayError)
    assert str(error) == f"the environment {env.__name__} {error.cause_text}, at env step {rows + 1}"
    assert error.env == env.__name__ and "\n" not in str(error)
    assert algorithm.env_steps == rows == len(algorithm.replay_buffer)


class Vector(SyncVectorEnv):
    """Vector environment of a user, which this package does not replace."""


# Gymnasium itself stores or rejects arrays of other shapes.
CHOICES = [case for case in FAILURES if "not in its obs" in case[1] and case[0].__name__.startswith("AnotherChoice")]


@pytest.mark.parametrize("mode", ["vector_entry_point", pytest.param("async", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("env", "message", "rows"), CHOICES, ids=[env.__name__ for env, _, _ in CHOICES])
def test_choices_of_other_vector_environments_are_checked(env, message, rows, mode):
    def create(context):
        if "num_envs" in context:
            return Vector([env] * context["num_envs"])
        return env()

    algorithm = config(create).env_runners(gym_env_vectorize_mode=mode).build_algo()
    with pytest.raises(EnvironmentFailure, match=message):
        algorithm.train()
    assert algorithm.env_steps == rows


def test_an_environment_that_exits_on_close_does_not_end_the_program(monkeypatch):
    printed = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    algorithm = config(failing_envs.ExitsWhenClosed).build_algo()
    algorithm.train()
    algorithm.stop()
    algorithm.env_runner.env = None
    gc.collect()
    assert printed == [], "it is not closed again when it is deleted"


def test_ctrl_c_in_a_step_is_raised_and_training_continues_with_a_new_episode():
    class Interrupted(failing_envs.Counting):
        def fail(self, result):
            raise KeyboardInterrupt

    algorithm = config(Interrupted).build_algo()
    with pytest.raises(KeyboardInterrupt):
        algorithm.train()
    algorithm.train()
    rows = rows_of(algorithm)
    assert torch.equal(rows.next_obs, rows.obs + torch.tensor([0.0, 1.0]))


@pytest.mark.parametrize("which", ["observation", "action"])
def test_a_space_without_numbers_is_rejected(which):
    class Empty(failing_envs.Counting):
        pass

    setattr(Empty, f"{which}_space", gym.spaces.Box(-1, 1, (0,)))
    with pytest.raises(ValueError, match=f"the {which} space Box.* has no numbers; expected at least one"):
        config(Empty).build_algo()


def test_rows_before_a_failure_are_stored_and_saved(tmp_path):
    """A fragment that fails in the middle, a checkpoint, and another environment in which training continues."""
    algorithm = config(failing_envs.Raises, step=27).env_runners(rollout_fragment_length=20).build_algo()
    with pytest.raises(EnvironmentFailure, match="at env step 27$") as caught:
        algorithm.train()
    assert isinstance(caught.value.__cause__, RuntimeError) and algorithm.env_steps == 26
    made = config(failing_envs.Raises, step=-1).env_runners(rollout_fragment_length=20)
    again = restored(made, algorithm.save_to_path(str(tmp_path / "checkpoint")))
    again.train()
    rows = rows_of(again)
    last = rows[rows.episode == rows.episode[25]]
    assert len(last) == 1 and bool(last.truncated[-1]), "nothing continues the episode that was broken off"


def evaluating(env, **settings):
    """Return a configuration of runs that train in an environment without failures and are evaluated in another."""
    own = {"env": env, "num_envs_per_env_runner": 1}
    return config(failing_envs.Counting).evaluation(evaluation_interval=1, evaluation_config=own, **settings)


@pytest.mark.parametrize(
    "setting", [{}, pytest.param({"evaluation_num_env_runners": 1}, marks=pytest.mark.slow)], ids=["local", "remote"]
)
def test_a_failure_in_an_evaluation_is_the_same_error(setting):
    algorithm = evaluating(failing_envs.Raises, **setting).build_algo()
    with pytest.raises(EnvironmentFailure, match="Raises raised RuntimeError: the motor burnt out"):
        algorithm.train()
    assert algorithm.train()["evaluation"]["env_runners"]["num_episodes"] == 10, "it fails once"


@pytest.mark.parametrize(
    ("env", "column", "runners"),
    [
        (failing_envs.RewardNaN, "rewards", 0),
        (failing_envs.ObservationNaN, "next_obs", 0),
        pytest.param(failing_envs.RewardNaN, "rewards", 1, marks=pytest.mark.slow),
    ],
)
def test_nan_in_an_evaluation_is_an_error(env, column, runners):
    """RLlib's mean of the returns would be that of the last evaluation."""
    algorithm = evaluating(env, evaluation_num_env_runners=runners).build_algo()
    with pytest.raises(NonFiniteError, match=f"{column} holds nan at a step of an evaluation of {env.__name__}; only"):
        algorithm.train()
    assert algorithm.env_steps == 50, "the steps of training are kept"
    assert algorithm.train()["evaluation"]["env_runners"]["num_episodes"] == 10, "it fails once"


def test_an_environment_that_rejects_the_action_after_its_own_nan():
    algorithm = config(failing_envs.ChecksActions).training(learning_starts=0).build_algo()
    with pytest.raises(EnvironmentFailure, match="raised ValueError: invalid action after an observation with nan, at"):
        algorithm.train()


@pytest.mark.slow
def test_the_same_errors_come_from_a_remote_runner(tmp_path):
    algorithm = config(failing_envs.RaisesThenExits).env_runners(num_env_runners=1).build_algo()
    with pytest.raises(EnvironmentFailure, match="raised TwoArguments: the motor is hot"):
        algorithm.train()
    assert algorithm.env_steps == 6
    algorithm.save_to_path(str(tmp_path / "after_the_error"))
    with pytest.raises(EnvironmentFailure, match="raised SystemExit: the license is missing"):
        algorithm.train()
    assert algorithm.env_steps == 12
    algorithm.save_to_path(str(tmp_path / "after_the_exit"))
