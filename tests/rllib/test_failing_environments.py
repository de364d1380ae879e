"""Environments that raise errors or give what cannot be stored: one named error, and what there is can be saved."""

from __future__ import annotations

import failing_envs
import pytest
import ray
import torch

from interreplay.errors import EnvironmentFailure, InterreplayError
from interreplay.rllib import SACConfig


@pytest.fixture(scope="module", autouse=True)
def environments(cluster):
    ray.cloudpickle.register_pickle_by_value(failing_envs)


def config(env, **env_config):
    return (
        SACConfig()
        .environment(env, env_config=env_config)
        .replay("Uniform", capacity=1_000)
        .training(
            hiddens=(16,),
            train_batch_size_per_learner=8,
            num_steps_sampled_before_learning_starts=10,
            steps_per_iteration=50,
        )
        .debugging(seed=0)
    )


FAILURES = [
    (failing_envs.Raises, "raised RuntimeError: the motor burnt out", 6),
    (failing_envs.RaisesInReset, "raised OSError: no contact to the robot", 5),
    (failing_envs.ResetWithoutSeed, "unexpected keyword argument 'seed' in reset", 0),
    (failing_envs.FourValues, "gave 4 values in step; expected five", 6),
    (failing_envs.AnotherShape, r"gave an observation of shape \(3,\); its observation space has \(2,\)", 6),
    (failing_envs.RewardArray, r"gave the reward array\(\[1\.\]\); expected one number", 6),
    (failing_envs.RewardText, "gave the reward 'much'; expected one number", 6),
]


@pytest.mark.parametrize(("env", "message", "rows"), FAILURES, ids=[env.__name__ for env, _, _ in FAILURES])
def test_one_named_error_says_what_happened_and_where(env, message, rows):
    algorithm = config(env).build_algo()
    with pytest.raises(EnvironmentFailure, match=message) as caught:
        algorithm.train()
    error = caught.value
    assert isinstance(error, InterreplayError)
    assert str(error) == f"the environment {env.__name__} {error.cause_text}, at env step {rows + 1}"
    assert error.env == env.__name__ and "\n" not in str(error)
    assert algorithm.env_steps == rows == len(algorithm.replay_buffer)
    algorithm.stop()


def test_the_cause_is_kept():
    algorithm = config(failing_envs.Raises).build_algo()
    with pytest.raises(EnvironmentFailure) as caught:
        algorithm.train()
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_what_came_before_the_failure_is_stored_and_saved(tmp_path):
    """A fragment that breaks in the middle, a checkpoint, and another environment in which training continues."""
    algorithm = config(failing_envs.Raises, step=27).env_runners(rollout_fragment_length=20).build_algo()
    with pytest.raises(EnvironmentFailure, match="at env step 27$"):
        algorithm.train()
    assert algorithm.env_steps == 26
    path = algorithm.save_to_path(str(tmp_path / "checkpoint"))
    again = config(failing_envs.Raises, step=-1).env_runners(rollout_fragment_length=20).build_algo()
    again.restore_from_path(path)
    again.train()
    rows = again.replay_buffer.storage[torch.arange(again.env_steps)]
    last = rows[rows.episode == rows.episode[25]]
    assert len(last) == 1 and bool(last.truncated[-1]), "nothing continues the episode that was broken off"
    algorithm.stop()
    again.stop()


def test_restarted_environments_that_always_fail_do_not_run_for_ever():
    made = config(failing_envs.Raises, step=1)
    made.fault_tolerance(restart_failed_sub_environments=True, num_consecutive_env_runner_failures_tolerance=3)
    algorithm = made.build_algo()
    with pytest.raises(EnvironmentFailure, match="the motor burnt out"):
        algorithm.train()
    assert algorithm.env_steps == 0
    algorithm.stop()


@pytest.mark.parametrize(
    "setting", [{}, pytest.param({"evaluation_num_env_runners": 1}, marks=pytest.mark.slow)], ids=["local", "remote"]
)
def test_a_failure_in_an_evaluation_is_the_same_error(setting):
    made = config(failing_envs.Counting).fault_tolerance(restart_failed_env_runners=False)
    made.evaluation(
        evaluation_interval=1, evaluation_config={"env": failing_envs.Raises, "num_envs_per_env_runner": 1}, **setting
    )
    algorithm = made.build_algo()
    with pytest.raises(EnvironmentFailure, match="Raises raised RuntimeError: the motor burnt out"):
        algorithm.train()
    algorithm.stop()


@pytest.mark.slow
@pytest.mark.parametrize("restarted", [False, True])
def test_the_words_survive_the_way_from_a_remote_runner(restarted, tmp_path):
    made = config(failing_envs.Raises, step=-1 if restarted else 7).env_runners(num_env_runners=1)
    made.fault_tolerance(
        restart_failed_env_runners=restarted,
        delay_between_env_runner_restarts_s=0,
        num_consecutive_env_runner_failures_tolerance=2,
    )
    if restarted:
        made.environment(env_config={"step": 1})  # fails whenever it is restarted
    algorithm = made.build_algo()
    with pytest.raises(EnvironmentFailure, match="raised RuntimeError: the motor burnt out, at env step") as caught:
        algorithm.train()
    assert caught.value.env == "Raises"
    assert algorithm.env_steps == (0 if restarted else 6)
    algorithm.save_to_path(str(tmp_path / "checkpoint"))
    algorithm.stop()
