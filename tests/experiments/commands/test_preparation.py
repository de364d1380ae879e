"""Preparation of a run: device, batches and memory, learning rates changed on resume, and the hint to compile."""

import json
import re

import gymnasium as gym
import numpy as np
import pytest

import custom_training
from interreplay.errors import UsageError
from interreplay.experience import make_source
from interreplay.experiments.commands import preparation, study, study_checks
from interreplay.experiments.commands import train as command
from interreplay.experiments.flags.training_flags import make_parser, resolve_settings, settings_resumed
from interreplay.experiments.process import machine
from interreplay.experiments.studies.grid import make_environment
from interreplay.experiments.studies.study import Execution, PlannedRun, Study, StudyFolder
from interreplay.experiments.training.start import configure

pytestmark = pytest.mark.usefixtures("cluster")

LINE = "--env Pendulum-v1 --preset none --total_env_steps 100 --steps_per_iteration 50 --learning_starts 40 --quiet"
LINE += " --train_batch_size 16 --hiddens 8,8 --buffer_size 1000 --evaluation_interval 0 --keep_best False"


@pytest.mark.slow
def test_a_resumed_run_uses_the_requested_learning_rate(tmp_path, capsys, monkeypatch):
    assert custom_training.main([*LINE.split(), "--output_dir", str(tmp_path)]) == 0
    (run,) = tmp_path.iterdir()
    seen, inner = [], command.train

    def looked_at(algo, *args, **options):
        code = inner(algo, *args, **options)
        optimizers = algo.learner.update_rule.optimizers
        seen.append({name: optimizer.param_groups[0]["lr"] for name, optimizer in optimizers.items()})
        return code

    monkeypatch.setattr(command, "train", looked_at)
    resume = ["--resume", str(run), "--quiet"]
    assert custom_training.main([*resume, "--actor_lr", "1e-5", "--total_env_steps", "150"]) == 0
    assert "actor_lr 0.0003 -> 1e-05 from step 100 on" in capsys.readouterr().out
    assert custom_training.main([*resume, "--total_env_steps", "200"]) == 0
    assert " -> " not in capsys.readouterr().out
    assert custom_training.main([*resume, "--alpha_lr", "0", "--total_env_steps", "250"]) == 0
    assert [each["actor"] for each in seen] == [1e-5] * 3 and seen[0]["critic"] == 3e-4
    written = json.loads((run / "checkpoint_00000250" / "settings.json").read_text())
    assert (written["actor_lr"], written["alpha_lr"]) == (1e-5, 0.0)
    changes = [{"env_steps": 100, "actor_lr": [3e-4, 1e-5]}, {"env_steps": 200, "alpha_lr": [3e-4, 0.0]}]
    assert written["rate_changes"] == changes
    assert json.loads((run / "params.json").read_text())["actor_lr"] == 1e-5


@pytest.mark.parametrize(("gpus", "device"), [(0, "cpu"), (2, "cuda")])
def test_a_device_that_is_chosen_automatically(gpus, device, monkeypatch, tmp_path):
    monkeypatch.setattr(preparation, "count_gpus", lambda: gpus)
    monkeypatch.setattr(preparation, "check_device", lambda device: None)
    monkeypatch.setattr(preparation, "build_source", lambda *args: None)
    monkeypatch.setattr(preparation, "check_method", lambda *args: None)
    monkeypatch.setattr(preparation, "check_memory", lambda *args: "")
    monkeypatch.setattr(preparation, "check_networks", lambda *args: None)
    given = make_parser().given([*LINE.split(), "--device", "auto", "--output_dir", str(tmp_path)])
    settings = preparation.prepare(given, [], None).settings
    assert settings.device == device and machine.choose_device("cpu", gpus) == "cpu"
    saved = vars(settings)
    assert settings_resumed(saved, {"device": "auto"}).device == device  # the previous device
    with pytest.raises(UsageError, match="made with device"):
        settings_resumed(saved, {"device": "cpu" if gpus else "cuda"})


@pytest.mark.parametrize(("graphs", "device"), [(True, "cpu"), (False, "cuda:0")])
def test_batches_stay_in_main_memory_if_updates_are_graphs(graphs, device):
    settings = resolve_settings(make_parser().given([*LINE.split(), "--device", "cuda", "--cuda_graph", str(graphs)]))
    assert str(preparation.build_source(settings, make_environment(settings)).device) == device
    assert configure(settings).cuda_graph == graphs
    assert settings_resumed(vars(settings), {"cuda_graph": not graphs}).cuda_graph != graphs


def test_rows_on_the_gpu_are_compared_with_its_memory(monkeypatch):
    given = make_parser().given([*LINE.split(), "--device", "cuda", "--buffer", "DeviceNMER", "--buffer_size", "10000"])
    settings = resolve_settings(given)
    environment = make_environment(settings)
    source = preparation.build_source(settings, environment)
    memory = {"cpu": 1e7, "cuda": 1e7}
    monkeypatch.setattr(preparation, "free_memory", memory.__getitem__)
    line = preparation.check_memory(settings, environment, source)
    in_main, on_gpu = map(float, re.findall(r"([\d.]+) GB when full", line))
    assert in_main < on_gpu < 0.01, "rows on the GPU do not count as main memory"
    memory["cuda"] = 1e6
    with pytest.raises(UsageError, match=r"on the GPU: .* GB when full, 0\.001 GB free; --buffer_size \d+ would fit"):
        preparation.check_memory(settings, environment, source)


@pytest.mark.parametrize(("gpus", "device"), [(0.0, "cpu"), (0.5, "cuda")])
def test_in_a_study_the_device_follows_the_gpus_of_a_run(gpus, device, monkeypatch, tmp_path):
    monkeypatch.setattr(study_checks.machine, "check_device", lambda device: None)
    flags = {"device": "auto", "env": "Pendulum-v1", "preset": "none", "buffer_size": 1000}
    run = PlannedRun("SAC", "Pendulum-v1", "Uniform", 0, flags)
    planned = Study([run], Execution(gpus_per_trial=gpus))
    assert study.make_run_settings(planned, StudyFolder.at(str(tmp_path)), run)["device"] == device
    assert study.make_run_settings(planned, StudyFolder.at(str(tmp_path)), run, gpus=1)["device"] == "cuda"


VECTORS = gym.spaces.Box(-1.0, 1.0, (3,))
IMAGES = gym.spaces.Box(0, 255, (84, 84, 3), np.uint8)
LONG = {"trainer": "SAC", "env": "Pendulum-v1", "updates_per_step": 20, "total_env_steps": 10_000}


@pytest.fixture(autouse=True)
def with_compiler(monkeypatch):
    monkeypatch.setattr(preparation, "can_compile", lambda: True)


def hint(observation_space=VECTORS, method="Uniform", **changes):
    source = make_source(method, capacity=100)
    return preparation.compilation_hint(resolve_settings(LONG | changes), source, observation_space)


def test_many_updates_are_faster_compiled():
    assert hint() == "up to 200,000 updates: --torch_compile true makes them faster"
    assert hint(trainer="TD3") == hint(trainer="TQC") == hint()


def test_updates_that_are_few_or_cannot_be_compiled():
    assert hint(total_env_steps=1_000) == ""
    assert hint(observation_space=IMAGES) == ""
    assert hint(critic_dropout=0.01) == ""
    assert hint(target_subset=1) == ""
    assert hint(method="LAP") == ""  # its batches define the loss
    assert hint(trainer="CrossQ") == ""
    assert hint(trainer="DQN", env="CartPole-v1") == ""


def test_a_machine_without_a_compiler(monkeypatch):
    monkeypatch.setattr(preparation, "can_compile", lambda: False)
    assert hint() == ""
