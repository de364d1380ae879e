"""Remote runners of a resumed run, and runners that die or hang: one error names them, and the run can be saved."""

import os
import signal
import time

import failing_envs
import pytest
import torch

from interreplay.errors import InterreplayError, RunnerLost
from tests.rllib.small_runs import config, same, weights
from tests.rllib.test_checkpoints import assert_same_run

pytestmark = pytest.mark.slow
PATIENCE = 8
"""Seconds until a runner counts as hanging; other runners must answer within them on a busy machine."""


def build(runners, env=failing_envs.Draws, **env_config):
    made = config(env).environment(env_config={"step": -1, "length": 20, **env_config})
    made.env_runners(num_env_runners=runners, num_envs_per_env_runner=2, sample_timeout_s=PATIENCE)
    return made.training(learning_starts=100_000, steps_per_iteration=300).build_algo()


def kill(algorithm, index):
    """End a runner's process as the kernel does when memory runs out."""
    ask = {"local_env_runner": False, "remote_worker_ids": [index]}
    (process,) = algorithm.env_runner_group.foreach_env_runner(lambda _: os.getpid(), **ask)
    os.kill(process, signal.SIGKILL)


def test_two_runners_resume_and_after_the_loss_of_one_nothing_is_repeated(tmp_path):
    made = config("HalfCheetah-v5").env_runners(num_env_runners=2, num_envs_per_env_runner=2)
    straight = made.copy().build_algo()
    straight.train()
    straight.save_to_path(tmp_path / "both")
    resumed = made.copy().build_algo()
    resumed.restore_from_path(tmp_path / "both")
    for algorithm in (straight, resumed):
        result = algorithm.train()
        assert result["env_runners"]["num_env_steps_sampled_lifetime"] == algorithm.env_steps >= 150
    assert_same_run(straight, resumed)
    acting = resumed.get_module().state_dict()
    learned = weights(resumed)
    assert same({name: learned[name] for name in acting}, acting), "the learner's weights, not the initial ones"
    rows = resumed.replay_buffer.storage[torch.arange(resumed.env_steps)]
    episodes = rows.episode.unique().tolist()
    assert len(episodes) == 4, "each environment continues its episode"
    assert len({episode >> 40 for episode in episodes}) == 2, "rows are from both runners"

    def kill_once(steps):
        if steps >= 190:
            straight.on_progress = None
            kill(straight, 2)

    straight.on_progress = kill_once
    with pytest.raises(RunnerLost, match="remote env runner 2 died") as caught:
        straight.train()
    assert isinstance(caught.value, InterreplayError) and "\n" not in str(caught.value)
    with pytest.raises(RunnerLost, match="1 of 2 remote env runners lost"):
        straight.train()
    assert straight.env_steps > 180
    straight.save_to_path(tmp_path / "one")
    straight.stop()
    # This checkpoint has no state of the second runner, which begins with other seeds and episode ids. If the runner
    # of `resumed` kept its state, it would repeat the rows that were made before the loss.
    resumed.restore_from_path(tmp_path / "one")
    resumed.train()
    rows = resumed.replay_buffer.storage[torch.arange(resumed.env_steps)]
    assert resumed.env_steps >= 225 > straight.env_steps
    assert len(rows.obs.unique(dim=0)) == len(rows), "no state twice"
    assert len(rows.episode.unique()) == 6, "two new episodes of the second runner"
    for episode in rows.episode.unique():
        mine = rows[rows.episode == episode]
        assert torch.equal(mine.next_obs[:-1], mine.obs[1:]), "no id twice"


def test_a_runner_that_hangs_is_named(tmp_path):
    algorithm = build(1, failing_envs.Hangs, step=40)
    with pytest.raises(RunnerLost, match="remote env runner 1 returned nothing within sample_timeout_s=8 s"):
        algorithm.train()
    assert algorithm.env_steps > 70
    algorithm.save_to_path(str(tmp_path / "checkpoint"))


def test_an_error_of_a_callback_is_reported_with_its_message_and_training_continues(tmp_path):
    def fails_once(**arguments):
        if not (tmp_path / "failed").exists():
            (tmp_path / "failed").touch()
            raise RuntimeError("the disk\nis full")

    made = config().env_runners(num_env_runners=1).callbacks(on_sample_end=fails_once)
    algorithm = made.build_algo()
    with pytest.raises(RunnerLost, match="^remote env runner 1 raised RuntimeError: the disk is full$"):
        algorithm.train()
    algorithm.train()
    assert algorithm.env_steps == len(algorithm.replay_buffer) > 0


def test_an_evaluation_in_another_process_uses_the_newest_weights_and_is_not_dropped(tmp_path):
    slow = tmp_path / "slow"
    made = config(failing_envs.SleepsWhileAFileExists).environment(env_config={"slow": str(slow), "step": -1})
    made.evaluation(evaluation_interval=1, evaluation_duration=3, evaluation_num_env_runners=1)
    made.evaluation(evaluation_sample_timeout_s=PATIENCE)
    algorithm = made.build_algo()
    here = made.copy(copy_frozen=False).evaluation(evaluation_num_env_runners=0).build_algo()
    # RLlib sends no weights while an earlier transfer is in progress.
    algorithm.eval_env_runner_group.foreach_env_runner_async(lambda runner: time.sleep(3), tag="set_state")
    for _ in range(2):
        found, expected = algorithm.train()["evaluation"], here.train()["evaluation"]
        for name in ("episode_return_mean", "num_episodes", "num_env_steps_sampled"):
            assert found["env_runners"][name] == expected["env_runners"][name]
    slow.touch()
    with pytest.raises(RunnerLost, match="remote env runner 1 returned nothing within evaluation_sample_timeout_s=8 s"):
        algorithm.evaluate()
    slow.unlink()
    for repeat in (algorithm.train, algorithm.evaluate, algorithm.train):  # never the previous evaluation
        with pytest.raises(RunnerLost, match="1 of 1 remote env runners lost"):
            repeat()
    algorithm.save_to_path(str(tmp_path / "checkpoint"))
