"""The launcher's check before submission: each run of the study can start in the environment of the runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from interreplay.experiments.commands import study

HOME = Path(__file__).resolve().parents[2]
LOUD = """
import atexit
import gymnasium as gym
from gymnasium.envs.classic_control import PendulumEnv

print("3")
atexit.register(print, "17\\nclosed after 99")
gym.register("Loud-v0", PendulumEnv, max_episode_steps=200)
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A study of two runs."""
    path = tmp_path / "study.yaml"
    path.write_text("buffers: [Uniform]\nenvs: [Pendulum-v1]\nseeds: 2\nsettings: {buffer_size: 1000000}\n")
    monkeypatch.chdir(tmp_path)
    return str(path)


def test_runs_are_counted_after_their_check(file, capsys, monkeypatch):
    monkeypatch.setattr("interreplay.experiments.commands.preparation.free_memory", lambda device: 1)
    assert study.main([file, "--count"]) == 0
    assert capsys.readouterr().out == "2\n", "the memory of a login node is not the job's"
    assert study.main([file, "--device", "cuda", "--count"]) == 0, "nor are its GPUs"
    for fitting in (
        "--num_workers 1 --run 0 --job_cpus 1 --job_gpus 0",
        "--cpus_per_trial 2 --address auto --job_cpus 2",
    ):
        assert study.main([file, "--count", *fitting.split()]) == 0, fitting
    flags = ["--envs", "CartPole-v1", "--trainers", "SAC,TD3", "--buffers", "Uniform,HER", "--seeds", "2"]
    capsys.readouterr()
    assert study.main([file, *flags, "--count"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and [line.partition(": ")[2].partition("; ")[0] for line in err.splitlines()] == [
        "error: runs 1, 5 of 8 cannot start: HER cannot store CartPole-v1: hindsight needs Dict observations with "
        "achieved_goal and desired_goal",
        "error: runs 2-3, 6-7 of 8 cannot start: TD3 requires continuous actions (Box, or a Dict or Tuple of Boxes)",
    ]


def launched(folder, *words):
    """Run the launcher in a separate process."""
    command = [sys.executable, HOME / "cluster_deployment/submit.py", "single", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_the_launcher_rejects_a_study_with_runs_that_cannot_start(file, tmp_path):
    done = launched(tmp_path, file, "--venv", sys.prefix, "--", "--buffers", "Uniform,HER")
    assert (done.returncode, done.stdout) == (2, "")
    assert "runs 1, 3 of 4 cannot start: HER cannot store Pendulum-v1" in done.stderr
    assert not (tmp_path / "results").exists()
    (tmp_path / "loud.py").write_text(LOUD)
    loud = ["--", "--envs", "loud:Loud-v0"]
    done = launched(tmp_path, file, "--venv", sys.prefix, "--dry-run", *loud)
    assert done.returncode == 0 and "2 runs, results in" in done.stdout and "--array=0-1" in done.stdout, done.stderr


@pytest.mark.slow
def test_the_launcher_reports_missing_packages(file, tmp_path):
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "activate").write_text(f'PATH="{tmp_path}/env/bin:/usr/bin:/bin"\n')
    (tmp_path / "env" / "bin" / "python").symlink_to("/usr/bin/false")
    words = [file, "--venv", str(tmp_path / "env"), "--dry-run"]
    done = launched(tmp_path, *words)
    assert done.returncode == 2 and "cannot import ray" in done.stderr
    assert "cannot be checked" in done.stderr and "--no-check" in done.stderr
    done = launched(tmp_path, *words, "--no-check", "--runs", "0-1")
    assert done.returncode == 0 and "not checked" in done.stdout and "--array=0-1" in done.stdout
