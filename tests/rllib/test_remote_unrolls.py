"""Remote runners: unrolls and transitions, resumes, lost runners, and failing environments."""

import os
import signal
import time
from types import SimpleNamespace

import failing_envs
import numpy as np
import pytest
import torch

import interreplay.rllib as ours
from interreplay.errors import EnvironmentFailure, InterreplayError, RunnerLost
from interreplay.rllib.env_runner import remote
from tests.rllib.small_runs import config, same, weights
from tests.rllib.test_actor_learner import assert_same_state
from tests.rllib.test_checkpoints import assert_same_run

pytestmark = pytest.mark.slow
ONE_AT_A_TIME = {"max_requests_in_flight_per_env_runner": 1}


def build(runners=1, env="CartPole-v1", trainer="IMPALA", tolerance=None, timeout=300, env_config=None, envs=2, **more):
    made = getattr(ours, f"{trainer}Config")().environment(env, env_config=env_config or {})
    flying = {name: more.pop(name) for name in ONE_AT_A_TIME if name in more}
    made.env_runners(num_env_runners=runners, num_envs_per_env_runner=envs, rollout_fragment_length=5, **flying)
    made.env_runners(sample_timeout_s=timeout).debugging(seed=0).fault_tolerance(**(tolerance or {}))
    made.training(**{"hiddens": (16,), "train_batch_size": 2, "steps_per_iteration": 60} | more)
    return made.build_algo()


@pytest.mark.parametrize(
    ("env", "trainer", "how"),
    [
        ("CartPole-v1", "IMPALA", {"sync": True, "normalize_observations": True, "lstm_cells": 8}),
        ("CartPole-v1", "A3C", ONE_AT_A_TIME),
    ],
)
def test_one_remote_runner_equals_a_local_one_over_a_resume(env, trainer, how, tmp_path):
    here, elsewhere = build(0, env, trainer, **how), build(1, env, trainer, **how)
    for number in range(3):
        if number == 2:
            elsewhere.save_to_path(tmp_path / "c")
            elsewhere.stop()
            elsewhere = build(1, env, trainer, **how)
            elsewhere.restore_from_path(tmp_path / "c")
        expected, found = here.train(), elsewhere.train()
        np.testing.assert_equal(found["learners"], expected["learners"])
    assert_same_state(here, elsewhere)
    name = "num_env_steps_sampled_lifetime"
    assert found["env_runners"][name] == expected["env_runners"][name] > 0


def watched(algorithm, learned):
    """Record all batches that the algorithm learns from."""
    learn = algorithm.learner.learn_from
    algorithm.learner.learn_from = lambda unrolls: (learned.append(unrolls), learn(unrolls))[1]


def check_once(learned):
    """Assert that no unroll was used twice, and that each was made with existing weights."""
    firsts = torch.cat([unrolls.obs[0] for unrolls in learned])
    assert len(firsts.unique(dim=0)) == len(firsts)
    assert all(0 <= int(unrolls.version.min()) <= number for number, unrolls in enumerate(learned))


def test_weights_are_as_old_as_the_broadcast_interval():
    learned = []
    algorithm = build(1, broadcast_interval=4)
    watched(algorithm, learned)
    algorithm.train()
    assert sorted({number - int(unrolls.version[0]) for number, unrolls in enumerate(learned)}) == [0, 1, 2, 3, 4]


def test_async_unrolls_are_used_once_over_a_resume_and_until_a_runner_is_lost(tmp_path):
    learned = []
    many = {"env_config": {"step": -1, "length": 20}, "envs": 16, "train_batch_size": 16, "steps_per_iteration": 2_000}
    algorithm = build(2, failing_envs.Draws, **many)
    watched(algorithm, learned)
    first, result = algorithm.train(), algorithm.train()
    assert result["replay_buffer"]["requests_in_flight"] > 0
    algorithm.save_to_path(tmp_path / "c")
    assert not len(algorithm._collector._requests)
    algorithm.stop()
    resumed = build(2, failing_envs.Draws, **many)
    resumed.restore_from_path(tmp_path / "c")
    assert resumed.learner.updates == len(learned)
    watched(resumed, learned)
    result = resumed.train()
    check_once(learned)
    assert sum(int(unrolls.live.sum()) for unrolls in learned) == resumed.env_steps == result["env_steps"]
    assert result["env_runners"]["num_env_steps_sampled_lifetime"] >= resumed.env_steps
    seams = [tuple(seam) for unrolls in learned for seam in unrolls.obs[-1].tolist()]
    firsts = {tuple(first) for unrolls in learned for first in unrolls.obs[0].tolist()}
    # All unrolls but the newest of each environment are continued by another; a resume resets environments that draw.
    assert len(seams) > 1_000 and sum(seam not in firsts for seam in seams) <= 2 * 2 * 16
    found = result["replay_buffer"]
    assert 0 <= found["learner_waiting_share"] <= 1 and 0 <= found["actors_waiting_share"] <= 1
    assert first["env_runners"]["num_env_steps_sampled_lifetime"] > 0
    kill(resumed, 1)
    deadline = time.monotonic() + 60
    with pytest.raises(RunnerLost, match="remote env runner 1 died|1 of 2 remote env runners lost"):
        while time.monotonic() < deadline:  # the other runner's answers are used until Ray reports the death
            resumed.train()
    resumed.save_to_path(tmp_path / "after_the_loss")


def test_gradients_of_asynchronous_runners_are_used():
    algorithm = build(1, trainer="A3C")
    result = [algorithm.train() for _ in range(2)][-1]
    assert result["replay_buffer"]["lag_max"] >= 1 and np.isfinite(result["learners"]["default_policy"]["loss"])
    assert algorithm.env_steps == result["env_steps"]


def test_a_runner_that_hangs_is_named_and_another_that_hangs_does_not_delay_the_end():
    envs = {"env": failing_envs.Hangs, "env_config": {"length": 20, "step": 40}}
    algorithm = build(2, timeout=PATIENCE, tolerance={"env_runner_health_probe_timeout_s": 1}, **envs)
    with pytest.raises(RunnerLost, match="remote env runner [12] returned nothing within sample_timeout_s=8 s"):
        for _ in range(5):
            algorithm.train()
    assert algorithm.env_steps > 60
    assert len(algorithm._collector._requests), "the other runner hangs, too"
    begun = time.monotonic()
    algorithm.stop()
    assert time.monotonic() - begun < 60


def test_a_missing_answer_fails_only_after_the_limit(monkeypatch):
    """Ray may return shortly before the limit, or after the answer has arrived."""
    clock, answers = iter([0.0, 0.0, 0.0, 7.9, 7.9, 8.1, 8.1]), iter([[], ["late"], ["late"]])
    monkeypatch.setattr(remote.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(remote.ray, "wait", lambda flying, num_returns, timeout: (next(answers), flying))
    monkeypatch.setattr(remote.ray, "get", lambda answer: f"{answer} answer")
    requests = remote.Requests(SimpleNamespace(get_handles=lambda: {1: "handle"}), 1, 8.0)
    requests.send(lambda handle: "late", 0)
    assert requests.receive() == "late answer"


def test_an_outdated_request_is_awaited_first(monkeypatch):
    monkeypatch.setattr(remote.ray, "wait", lambda flying, num_returns, timeout: (flying[-1:], flying[:-1]))
    monkeypatch.setattr(remote.ray, "get", lambda answer: answer)
    requests = remote.Requests(SimpleNamespace(get_handles=lambda: {1: "slow", 2: "quick"}), 1, None)
    requests.send(lambda handle: handle, 3)
    assert requests.receive(oldest=3) == "quick"
    requests.send(lambda handle: handle, 9)
    assert requests.receive(oldest=4) == "slow"
    assert requests.receive(oldest=4) == "quick"


def test_answers_of_a_runner_are_taken_in_request_order(monkeypatch):
    """If several answers are available, `ray.wait` returns any of them."""
    monkeypatch.setattr(remote.ray, "wait", lambda flying, num_returns, timeout: (flying[-1:], flying[:-1]))
    monkeypatch.setattr(remote.ray, "get", lambda answer: answer)
    requests = remote.Requests(SimpleNamespace(get_handles=lambda: {1: "one", 2: "two"}), 2, None)
    numbers = iter(range(4))
    requests.send(lambda handle: (handle, next(numbers)), 0)
    found = [requests.receive() for _ in range(4)]
    assert sorted(found) == sorted([("one", 0), ("one", 1), ("two", 2), ("two", 3)])
    for runner in ("one", "two"):
        assert [answer for answer in found if answer[0] == runner] == sorted(a for a in found if a[0] == runner)


def test_weights_are_at_most_max_lag_updates_old():
    """One of two runners is slow; each of a runner's two requests is used in a separate update."""
    learned = []
    algorithm = build(2, failing_envs.SlowSecond, env_config={"step": -1, "length": 20}, max_lag=6)
    watched(algorithm, learned)
    for _ in range(4):
        algorithm.train()
    check_once(learned)
    lags = [number - int(unrolls.version.min()) for number, unrolls in enumerate(learned)]
    assert 6 <= max(lags) <= 6 + 2, "the quick one gets ahead, and waits then"


def test_a_failing_environment_of_a_remote_runner_is_named():
    algorithm = build(1, failing_envs.Raises, env_config={"length": 20, "step": 40})
    with pytest.raises(EnvironmentFailure, match="the motor burnt out") as caught:
        for _ in range(5):
            algorithm.train()
    assert "\n" not in str(caught.value) and algorithm.env_steps >= 60


PATIENCE = 8
"""Seconds until a runner counts as hanging; other runners must answer within them on a busy machine."""


def build_sac(runners, env=failing_envs.Draws, **env_config):
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
    algorithm = build_sac(1, failing_envs.Hangs, step=40)
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
