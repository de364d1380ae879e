"""The record of an experiment of the command `rllib`, and what --resume rejects."""

from __future__ import annotations

import pytest

from interreplay.experiments.rllib_command import main
from interreplay.experiments.rllib_command.experiment_files import check_unchanged, keep
from interreplay.experiments.rllib_command.experiments import Experiment


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--stop", "{env_steps: 9000}"], "--stop {'env_steps': 9000}: r/default was begun with {'env_steps': 200}"),
        (["--config", "{gamma: 0.5}"], "--config {'gamma': 0.5}: r/default was begun with {'tau': 0.01}"),
        (["--num_samples", "3"], "--num_samples 3: r/default was begun with 1"),
        (
            ["--env", "MountainCarContinuous-v0"],
            "--env 'MountainCarContinuous-v0': r/default was begun with 'Pendulum-v1'",
        ),
    ],
)
def test_what_goes_on_refuses_to_be_another(tmp_path, monkeypatch, capsys, more, named):
    monkeypatch.chdir(tmp_path)
    experiment = Experiment("default", "SAC", "Pendulum-v1", {"env_steps": 200}, {"tau": 0.01})
    experiment.tuner(tmp_path / "r")
    keep(tmp_path / "r/default", experiment)
    command = ["train", "--run", "SAC", "--env", "Pendulum-v1", "--resume", "--output_dir", "r"]
    assert main.main([*command, *more]) == 2
    assert f"{named}, which --resume keeps" in capsys.readouterr().err


def test_what_goes_on_may_say_the_same_or_less_and_may_be_of_before(tmp_path):
    begun = Experiment("default", "SAC", "Pendulum-v1", {"env_steps": 200}, {"tau": 0.01, "hiddens": (8, 8)})
    check_unchanged(tmp_path, begun)
    keep(tmp_path, begun)
    check_unchanged(tmp_path, begun)
    check_unchanged(tmp_path, Experiment("default", "SAC", "Pendulum-v1", config={"tau": 0.01}))
