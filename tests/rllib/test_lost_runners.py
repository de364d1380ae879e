"""Remote runners that die or hang: one error names them, the run can be saved, and a resumed run repeats nothing."""

from __future__ import annotations

import os
import signal

import failing_envs
import pytest
import ray
import torch

from interreplay.errors import InterreplayError, RunnerLost
from interreplay.rllib import SACConfig

pytestmark = pytest.mark.slow
PATIENCE = 8
"""Seconds until a runner counts as hanging; other runners must answer within them on a busy machine."""


@pytest.fixture(scope="module", autouse=True)
def environments(cluster):
    ray.cloudpickle.register_pickle_by_value(failing_envs)


def build(runners, env=failing_envs.Draws, **env_config):
    made = SACConfig().environment(env, env_config={"step": -1, "length": 20, **env_config})
    made.env_runners(num_env_runners=runners, num_envs_per_env_runner=2, sample_timeout_s=PATIENCE)
    made.replay("Uniform", capacity=5_000).debugging(seed=0)
    made.training(
        hiddens=(16,),
        train_batch_size_per_learner=8,
        num_steps_sampled_before_learning_starts=100_000,
        steps_per_iteration=300,
    )
    return made.build_algo()


def kill(algorithm, index):
    """End a runner's process as the kernel does when memory runs out."""
    ask = {"local_env_runner": False, "remote_worker_ids": [index]}
    (process,) = algorithm.env_runner_group.foreach_env_runner(lambda _: os.getpid(), **ask)
    os.kill(process, signal.SIGKILL)


def test_a_killed_runner_is_named_and_the_resumed_run_repeats_nothing(tmp_path):
    algorithm = build(2)

    def kill_once(steps):
        if steps >= 100:
            algorithm.on_progress = None
            kill(algorithm, 2)

    algorithm.on_progress = kill_once
    with pytest.raises(RunnerLost, match="remote env runner 2 died") as caught:
        algorithm.train()
    assert isinstance(caught.value, InterreplayError) and "\n" not in str(caught.value)
    with pytest.raises(RunnerLost, match="1 of 2 remote env runners lost"):
        algorithm.train()
    path = algorithm.save_to_path(str(tmp_path / "checkpoint"))
    algorithm.stop()
    # The checkpoint has no state of the second runner, which begins with other seeds and episode ids.
    again = build(2)
    again.restore_from_path(path)
    again.train()
    rows = again.replay_buffer.storage[torch.arange(again.env_steps)]
    assert again.env_steps >= 300 and len(rows.obs.unique(dim=0)) == len(rows), "no state twice"
    for episode in rows.episode.unique():
        mine = rows[rows.episode == episode]
        assert torch.equal(mine.next_obs[:-1], mine.obs[1:]) and len(mine) <= 20, "no id twice"
    again.stop()


def test_a_runner_that_hangs_is_named(tmp_path):
    algorithm = build(1, failing_envs.Hangs, step=40)
    with pytest.raises(RunnerLost, match="remote env runner 1 returned nothing within sample_timeout_s=8 s"):
        algorithm.train()
    assert algorithm.env_steps > 70
    algorithm.save_to_path(str(tmp_path / "checkpoint"))
    algorithm.stop()


def test_restarts_are_rejected():
    with pytest.raises(ValueError, match="restart_failed_env_runners is True; expected False"):
        SACConfig().environment("Pendulum-v1").fault_tolerance(restart_failed_env_runners=True).validate()
