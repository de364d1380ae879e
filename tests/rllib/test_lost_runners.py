"""Remote runners that die or hang: restarted or named, within a bound; nothing is stored twice."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import failing_envs
import pytest
import ray
import torch

from interreplay.errors import InterreplayError, RunnerLost
from interreplay.rllib import SACConfig

pytestmark = pytest.mark.slow
PATIENCE = 8
"""Seconds: what hangs takes as long, and on a busy machine what does not must not."""
WITHOUT_RESTARTS = {"restart_failed_env_runners": False}


@pytest.fixture(scope="module", autouse=True)
def environments(cluster):
    ray.cloudpickle.register_pickle_by_value(failing_envs)


@pytest.fixture
def build():
    """Build an algorithm that is stopped at the end."""
    with contextlib.ExitStack() as stack:

        def make(runners, env=failing_envs.Draws, tolerance=None, sample_timeout_s=300, **env_config):
            made = SACConfig().environment(env, env_config={"step": -1, "length": 20, **env_config})
            made.env_runners(num_env_runners=runners, num_envs_per_env_runner=2, sample_timeout_s=sample_timeout_s)
            made.replay("Uniform", capacity=5_000).debugging(seed=0)
            made.fault_tolerance(**(tolerance or {}))
            made.training(
                hiddens=(16,),
                train_batch_size_per_learner=8,
                num_steps_sampled_before_learning_starts=100_000,
                steps_per_iteration=300,
            )
            algorithm = made.build_algo()
            stack.callback(algorithm.stop)
            return algorithm

        yield make


def kill(algorithm, index):
    """End a runner's process as the kernel does when memory runs out."""
    ask = {"local_env_runner": False, "remote_worker_ids": [index]}
    (process,) = algorithm.env_runner_group.foreach_env_runner(lambda _: os.getpid(), **ask)
    os.kill(process, signal.SIGKILL)


def kill_at(algorithm, index, step):
    """End it in the middle of an iteration."""

    def kill_once(steps):
        if steps >= step:
            algorithm.on_progress = None
            kill(algorithm, index)

    algorithm.on_progress = kill_once


def check_rows(algorithm, processes):
    """Assert that no state is stored twice, that episodes are whole chains, and of how many processes they come."""
    rows = algorithm.replay_buffer.storage[torch.arange(algorithm.env_steps)]
    assert len(rows.obs.unique(dim=0)) == len(rows), "no state twice"
    assert len(rows.rewards) == algorithm.env_steps
    for episode in rows.episode.unique():
        mine = rows[rows.episode == episode]
        assert torch.equal(mine.next_obs[:-1], mine.obs[1:]), "no id twice"
        assert len(mine) <= 20
    assert len({int(i) >> 28 for i in rows.episode.unique()}) == processes
    return rows


def check_last(rows, index):
    """Assert that nothing continues the episodes which the first process of a runner left open."""
    mine = rows[(rows.episode >= index << 40) & (rows.episode < (index << 40) + (1 << 28))]
    for episode in mine.episode.unique()[-2:]:
        last = mine[mine.episode == episode][-1:]
        assert bool(last.truncated | last.terminated)


def test_the_last_runner_is_restarted_and_repeats_nothing(build):
    algorithm = build(1)
    kill_at(algorithm, 1, 100)
    algorithm.train()
    algorithm.train()
    assert algorithm.env_steps >= 600
    check_last(check_rows(algorithm, processes=2), 1)


def test_one_of_two_runners_is_restarted_and_repeats_nothing(build, tmp_path):
    algorithm = build(2)
    kill_at(algorithm, 2, 100)
    algorithm.train()
    path = algorithm.save_to_path(str(tmp_path / "checkpoint"))
    while algorithm.env_runner_group.num_healthy_remote_env_runners() < 2:
        time.sleep(0.2)
        algorithm.restore_lost_runners()
    algorithm.train()
    check_rows(algorithm, processes=3)
    algorithm.stop()
    # The run that is resumed from where the runner was away begins with another in its place.
    again = build(2)
    again.restore_from_path(path)
    again.train()
    rows = check_rows(again, processes=3)
    check_last(rows, 2)


def test_without_restarts_one_error_names_the_runner_and_the_run_can_be_saved(build, tmp_path):
    algorithm = build(1, tolerance=WITHOUT_RESTARTS)
    kill_at(algorithm, 1, 100)
    with pytest.raises(RunnerLost, match="remote env runner 1 died") as caught:
        algorithm.train()
    assert isinstance(caught.value, InterreplayError) and "\n" not in str(caught.value)
    algorithm.save_to_path(str(tmp_path / "checkpoint"))
    with pytest.raises(RunnerLost, match="1 of 1 remote env runners is lost"):
        algorithm.train()


def test_a_runner_that_may_not_be_restarted_again_ends_training(build):
    algorithm = build(1, tolerance={"max_num_env_runner_restarts": 0})
    kill_at(algorithm, 1, 100)
    with pytest.raises(RunnerLost, match="max_num_env_runner_restarts"):
        algorithm.train()


def test_a_runner_that_hangs_is_named(build, tmp_path):
    algorithm = build(1, failing_envs.Hangs, WITHOUT_RESTARTS, sample_timeout_s=PATIENCE, step=40)
    with pytest.raises(RunnerLost, match="remote env runner 1 returned nothing within sample_timeout_s=8 s"):
        algorithm.train()
    assert algorithm.env_steps > 70
    algorithm.save_to_path(str(tmp_path / "checkpoint"))


def test_a_runner_that_hangs_is_restarted(build):
    algorithm = build(1, failing_envs.Hangs, sample_timeout_s=PATIENCE, step=90)
    algorithm.train()
    assert algorithm.env_steps >= 300
    storage = algorithm.replay_buffer.storage
    assert len({int(i) >> 28 for i in storage.column("episode")[: len(storage)].unique()}) == 2
