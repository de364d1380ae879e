"""Iterations: counts, length, callbacks, and the start of learning."""

import failing_envs
import pytest
import torch
from ray.rllib.callbacks.callbacks import RLlibCallback

from interreplay.rllib.env_runner import episode_callbacks
from tests.rllib import small_runs
from tests.rllib.small_runs import restored, rows_of, run, trained

TRAINED = "num_env_steps_trained_lifetime"


def config(env=failing_envs.Draws, **training):
    made = small_runs.config(env).environment(env_config={} if isinstance(env, str) else {"step": -1, "length": 20})
    return made.training(**{"train_batch_size": 8, "steps_per_iteration": 30} | training)


@pytest.mark.slow
def test_trained_rows_are_counted_like_in_rllib(tmp_path):
    algorithm, results = run(config(), 3)
    # 30, 60 and 90 env steps, with one update of 8 rows for each from the fiftieth on.
    assert [result["learners"]["__all_modules__"][TRAINED] for result in results] == [0, 8 * 11, 8 * 41]
    again = restored(config(), algorithm.save_to_path(str(tmp_path / "checkpoint")))
    assert again.train()["learners"]["__all_modules__"][TRAINED] == 8 * 71


@pytest.mark.slow
def test_a_state_without_a_buffer_fills_it_before_learning():
    algorithm = trained(config(), 3)
    updates = algorithm.learner.updates
    again = config().build_algo()
    again.set_state(algorithm.get_state())
    assert (again.env_steps, len(again.replay_buffer)) == (90, 0)
    again.train()
    assert again.learner.updates == updates and len(again.replay_buffer) == 30
    again.train()
    assert again.learner.updates == updates + 11, "from the fiftieth stored row on"
    rows = rows_of(again)[:30]
    given = again.learner.single_module.policy.act(rows.obs)
    assert not torch.equal(rows.actions, given) and rows.actions.abs().max() <= 1


def test_a_buffer_smaller_than_the_warm_up_learns():
    made = config(num_steps_sampled_before_learning_starts=60).replay("Uniform", capacity=20)
    assert trained(made, 3).learner.updates == 31


class Samples(RLlibCallback):
    """Callback that adds up its samples in metrics."""

    def on_sample_end(self, *, env_runner, metrics_logger, samples, **kwargs):
        metrics_logger.log_value("sampled_steps", sum(len(e) for e in samples), reduce="sum")
        metrics_logger.log_value("sampled_reward", sum(e.get_return() for e in samples), reduce="sum")


def test_samples_are_passed_to_the_callback():
    made = config().callbacks(Samples)
    algorithm, (result,) = run(made.env_runners(num_envs_per_env_runner=2, rollout_fragment_length=7), 1)
    result = result["env_runners"]
    assert result["sampled_steps"] == algorithm.env_steps == result["sampled_reward"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("hook", ["on_episode_start", "on_episode_step", "on_episode_end", "on_sample_end"])
def test_training_continues_after_an_error_of_a_callback(hook, error):
    """The steps of the fragment with the error are neither stored nor counted, and a new episode begins."""
    calls = []

    def fails_once(**arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise error("the disk is full")

    made = config(failing_envs.Counting).env_runners(rollout_fragment_length=7).callbacks(**{hook: fails_once})
    algorithm = made.build_algo()
    with pytest.raises(error, match="the disk is full"):
        for _ in range(2):
            algorithm.train()
    result = algorithm.train()
    rows = rows_of(algorithm)
    assert torch.equal(rows.next_obs, rows.obs + torch.tensor([0.0, 1.0]))
    continued = rows.episode[1:] == rows.episode[:-1]
    assert torch.equal(rows.obs[1:][continued], rows.next_obs[:-1][continued])
    assert result["num_env_steps_sampled_lifetime"] == algorithm.env_steps == len(algorithm.replay_buffer)


def test_an_error_after_an_iteration_does_not_repeat_it():
    calls = []

    def fails_once(**arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise RuntimeError("the disk is full")

    algorithm = config().callbacks(on_train_result=fails_once).build_algo()
    with pytest.raises(RuntimeError, match="the disk is full"):
        algorithm.train()
    assert not algorithm.evaluation_failed
    result = algorithm.train()
    assert (result["training_iteration"], result["env_steps"]) == (2, 60)


@pytest.mark.parametrize(("most", "most_kept"), [(10, 16), (1_000, 40)])
def test_callbacks_see_the_whole_length_of_episodes_whose_old_steps_are_dropped(most, most_kept, monkeypatch):
    monkeypatch.setattr(episode_callbacks, "MOST_STEPS", most)
    steps = []
    ended = []
    sampled = []
    kept = []

    def on_step(episode, **_):
        steps.append((len(episode), episode.env_steps(), episode.get_return(), episode.get_rewards(-1)))
        kept.append(len(episode.rewards.data))
        episode.custom_data.setdefault("ids", set()).add(episode.id_)

    def on_end(episode, **_):
        newest = episode[-3:]
        columns = episode.get_data_dict()
        ended.append((len(episode), episode.get_return(), len(episode.custom_data["ids"])))
        assert (newest.t, len(newest), newest.is_done) == (40, min(3, 40 - episode.t_started), True)
        assert columns["t"][-1] == 39 and columns["terminateds"][-1]
        assert {len(column) for column in columns.values()} == {len(columns["t"])}

    def on_sample(samples, **_):
        sampled.append([(one.t_started, len(one), one.get_return(), one.is_done) for one in samples])

    made = config(env=failing_envs.Counting)
    made.environment(env_config={"step": -1, "length": 40})
    made.callbacks(on_episode_step=on_step, on_episode_end=on_end, on_sample_end=on_sample)
    algorithm = made.build_algo()
    for _ in range(18):
        algorithm.env_runner.collect(7, random_actions=True)
    expected = [1 + step % 40 for step in range(126)]
    assert steps == [(length, length, length, 1.0) for length in expected]
    assert ended == [(40, 40.0, 1)] * 3
    assert max(kept) == most_kept
    assert sampled[:5] == [[(start, 7, 7.0, False)] for start in (0, 7, 14, 21, 28)]
    assert sampled[5] == [(35, 5, 5.0, True), (0, 2, 2.0, False)]


def test_episode_callbacks_continue_after_a_resume(tmp_path):
    ended = []
    made = config(env="CartPole-v1").callbacks(on_episode_end=lambda episode, **_: ended.append(len(episode)))
    folder = trained(made).save_to_path(str(tmp_path / "checkpoint"))
    again = restored(made.copy(copy_frozen=False), folder)
    before = len(ended)
    again.train()
    again.train()
    assert len(ended) > before
