"""Runs that end before their last step: after a time, at a return, or without improvement."""

import argparse
import json
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import pytest
from gymnasium.envs.classic_control import PendulumEnv

import custom_training
from interreplay.experiments.commands import actor_learner, study
from interreplay.experiments.flags.values import seconds
from interreplay.experiments.training import train_loop
from interreplay.experiments.training.train_loop import find_stop_reason
from tests.experiments.commands.command_lines import rows, steps, the_run

pytestmark = pytest.mark.usefixtures("cluster")


class Level(PendulumEnv):
    """Pendulum whose episodes of 10 steps have return 0."""

    def step(self, action):
        obs, _, *rest = super().step(action)
        return obs, 0.0, *rest


gym.register("Level-v0", entry_point=Level, max_episode_steps=10)
LINE = (
    "--env Level-v0 --total_env_steps 500 --steps_per_iteration 50 --learning_starts 60 --train_batch_size 16"
    " --buffer_size 1000 --hiddens 8 --evaluation_num_episodes 1 --evaluation_num_envs 1"
).split()


def train(folder: Path, *flags: str) -> int:
    return custom_training.main([*LINE, "--output_dir", str(folder), *flags])


@pytest.fixture
def clock(monkeypatch):
    """Replace the clock by one that each round of sampling, and each draw of a batch, advances by one second."""
    now = [0.0]

    def monotonic():
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr(train_loop, "time", SimpleNamespace(monotonic=monotonic))
    return now


def test_durations():
    for text, count in {"90s": 90, "30m": 1_800, "2h": 7_200, "1d": 86_400, "1h30m": 5_400}.items():
        assert seconds(text) == count
    for text in ("", "0s", "7200", "1.5h", "30m1h", "-1h", "2 h", "2H", "1" * 12 + "d"):
        with pytest.raises(argparse.ArgumentTypeError, match="90s, 30m, 2h, 1d or 1h30m"):
            seconds(text)


def limits(target: float | None, patience: int | None) -> SimpleNamespace:
    return SimpleNamespace(stop_at_return=target, stop_without_improvement=patience, evaluation_interval=1)


def test_a_return_counts_from_the_evaluation_that_reaches_it():
    assert find_stop_reason([9.9], limits(10.0, None)) == ""
    for target, reason in ((10.0, "evaluation return 10.0 reached --stop_at_return 10"), (11.0, "")):
        assert find_stop_reason([9.9, 10.0], limits(target, None)) == reason


def test_an_equal_return_is_not_an_improvement_and_a_better_one_starts_again():
    returns = [5.0, 5.0, 6.0, 4.0, 6.0]
    *earlier, last = [find_stop_reason(returns[:n], limits(None, 2)) for n in range(6)]
    assert earlier == [""] * 5
    assert last == "2 evaluations without a return above 6.0 (--stop_without_improvement 2)"


def test_without_evaluations_the_return_in_training_counts(tmp_path, capsys):
    assert train(tmp_path, "--stop_at_return", "-5", "--evaluation_interval", "0") == 0
    assert steps(the_run(tmp_path)) == [50]
    reason = "training return 0.0 reached --stop_at_return -5"
    assert rows(the_run(tmp_path))[-1]["stop_reason"] == reason
    assert f"stopped before 500 steps: {reason}" in capsys.readouterr().out


@pytest.mark.slow
def test_no_improvement_ends_the_run_and_a_resumed_run_counts_on(tmp_path):
    assert train(tmp_path, "--stop_without_improvement", "2") == 0
    assert steps(the_run(tmp_path)) == [50, 100, 150]
    assert custom_training.main(["--resume", str(the_run(tmp_path)), "--stop_without_improvement", "4"]) == 0
    assert steps(the_run(tmp_path)) == [50, 100, 150, 200, 250]
    reason = "4 evaluations without a return above 0.0 (--stop_without_improvement 4)"
    assert rows(the_run(tmp_path))[-1]["stop_reason"] == reason


@pytest.mark.slow
def test_time_ends_a_run_like_a_signal_and_counts_for_each_process(clock, tmp_path, capsys):
    assert train(tmp_path, "--max_time", "3m") == 75
    assert "--max_time 3m has elapsed; continue with: " in capsys.readouterr().out
    first = max(steps(the_run(tmp_path)))
    assert 100 <= first < 200
    assert custom_training.main(["--resume", str(the_run(tmp_path))]) == 75
    assert 200 <= max(steps(the_run(tmp_path))) < 300
    assert custom_training.main(["--resume", str(the_run(tmp_path)), "--max_time", "1d"]) == 0
    assert steps(the_run(tmp_path)) == list(range(50, 501, 50))


STUDY = """
buffers: [Uniform]
envs: [Level-v0]
settings: {%s, total_env_steps: 500, steps_per_iteration: 50, learning_starts: 60, train_batch_size: 16,
  buffer_size: 1000, hiddens: 8, evaluation_num_episodes: 1, evaluation_num_envs: 1}
"""


def one_of_a_study(folder: Path, setting: str) -> int:
    (folder / "study.yaml").write_text(STUDY % setting)
    return study.main(["--run", "0", "--output_dir", str(folder / "out"), str(folder / "study.yaml")])


def status(folder: Path) -> dict:
    (file,) = (folder / "out").glob("SAC_*/status.json")
    return json.loads(file.read_text())


def test_a_run_of_a_study_records_why_it_ended(tmp_path):
    assert one_of_a_study(tmp_path, "stop_at_return: -5") == 0
    found = status(tmp_path)
    assert (found["state"], found["env_steps"]) == ("finished", 50)
    assert found["reason"] == "evaluation return 0.0 reached --stop_at_return -5"


@pytest.mark.slow
def test_a_run_of_a_study_that_ran_out_of_time_can_be_resumed(clock, tmp_path, capsys):
    assert one_of_a_study(tmp_path, "max_time: 3m") == 75
    assert "interrupted (--max_time 3m is over) at " in capsys.readouterr().out
    assert status(tmp_path)["state"] == "interrupted"
    while status(tmp_path)["state"] == "interrupted":
        code = one_of_a_study(tmp_path, "max_time: 3m")
    found = status(tmp_path)
    assert (code, found["state"], found["reason"], found["starts"]) == (0, "finished", "", 6)


def test_the_platforms_words_pass_them_on():
    words = actor_learner.translate({"max_time": "2h", "stop_at_return": "20", "stop_without_improvement": "9"})
    assert {"--max_time=2h", "--stop_at_return=20", "--stop_without_improvement=9"} <= set(words)
