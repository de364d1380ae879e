"""Notes of the launcher about a job that does not fit its runs: idle GPUs, too few CPUs, too little memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from interreplay.experiments.commands import slurm_request
from interreplay.experiments.commands.slurm_request import Job

HOME = Path(__file__).resolve().parents[2]


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Two runs whose buffers hold a million rows of Pendulum."""
    path = tmp_path / "study.yaml"
    path.write_text("buffers: [Uniform]\nenvs: [Pendulum-v1]\nseeds: 2\nsettings: {buffer_size: 1000000}\n")
    monkeypatch.chdir(tmp_path)
    return str(path)


def ask(capsys, study, *flags, **job):
    """The number of runs and the notes."""
    given = {"array": True, "cpus": 1, "mem": "4G"} | job
    code = slurm_request.main([json.dumps(given), study, *flags])
    out, err = capsys.readouterr()
    assert code == 0, err
    return int(out), [line.removeprefix("note: ") for line in err.splitlines()]


def test_a_job_that_fits_has_no_notes(study, capsys):
    assert ask(capsys, study) == (2, [])
    assert ask(capsys, study, mem="") == (2, [])
    assert ask(capsys, study, mem="0") == (2, [])
    assert ask(capsys, study, "--num_workers", "3", "--buffer_size", "1000", cpus=4) == (2, [])
    assert ask(capsys, study, "--device", "cuda", gpus="1") == (2, [])
    assert ask(capsys, study, "--device", "cuda", "--gpus_per_trial", "0.5", gpus="a100:1", array=False) == (2, [])


@pytest.mark.parametrize(
    ("flags", "job", "named"),
    [
        ("", {"gpus": "1"}, "--gpus 1 would be idle"),
        ("--device cuda", {}, "but the job has no GPU; add --gpus 1"),
        ("--device cuda", {"gpus": "1", "array": False}, "--gpus_per_trial 1"),
        ("--num_workers 3 --buffer_size 1000", {}, "--cpus 1 are too few: a run takes 4, cpus_per_trial 1 and one for"),
        ("--cpus_per_trial 2", {}, "ask for --cpus 2"),
        ("", {"mem": "100M"}, "--mem 100M is too little: the largest replay buffer takes"),
        ("", {"mem": "700000K"}, "ask for --mem 1G"),
        ("", {"mem": "1G", "array": False, "cpus": 2}, "2 runs at a time on a node"),
    ],
)
def test_a_mismatch_is_one_line(study, capsys, flags, job, named):
    count, notes = ask(capsys, study, *flags.split(), **job)
    assert count == 2 and len(notes) == 1 and named in notes[0], notes


def test_workers_may_be_on_other_nodes(study, capsys):
    flags = ("--num_workers", "5", "--buffer_size", "1000")
    assert ask(capsys, study, *flags, cpus=3, nodes=2, array=False, mem="8G") == (2, [])
    assert "--cpus 3 are too few" in ask(capsys, study, *flags, cpus=3, nodes=1, array=False, mem="8G")[1][0]


def test_memory_of_the_buffer_and_the_process(study, capsys):
    _, (note,) = ask(capsys, study, mem="1M")
    settings = slurm_request.settings_for({"env": "Pendulum-v1", "buffer": "Uniform", "buffer_size": 1_000_000})
    size = slurm_request.buffer_bytes(settings)
    assert 20e6 < size < 200e6 and f"takes {size / 1e9:.2g} GB" in note
    assert size < Job(True, 1, mem="200M").bytes() == 200 * 2**20


def test_a_study_that_cannot_be_run_is_one_line(study, capsys):
    for flags in (["--envs", "Pendulmu-v1"], ["--buffers", "NMRE"], ["--num_workers", "-1"]):
        try:
            code = slurm_request.main([json.dumps({"array": True, "cpus": 1}), study, *flags])
        except SystemExit as end:
            code = end.code
        error = capsys.readouterr().err
        assert code == 2 and error.count("\n") == 1 and "error:" in error


def test_every_run_that_cannot_start_is_named_with_its_reason(study, capsys, monkeypatch):
    flags = ["--envs", "CartPole-v1", "--trainers", "SAC,TD3", "--buffers", "Uniform,HER", "--seeds", "2"]
    assert slurm_request.main([json.dumps({"array": True, "cpus": 1}), study, *flags]) == 2
    out, err = capsys.readouterr()
    assert out == "" and [line.partition(": ")[2].partition("; ")[0] for line in err.splitlines()] == [
        "error: runs 1, 5 of 8 cannot start: HER cannot store CartPole-v1: hindsight needs Dict observations with "
        "achieved_goal and desired_goal",
        "error: runs 2-3, 6-7 of 8 cannot start: TD3 acts in a Box of continuous actions (or a Dict or Tuple of these)",
    ]
    assert ask(capsys, study, *flags, runs="0,4") == (8, [])
    monkeypatch.setattr("interreplay.experiments.commands.preparation.free_memory", lambda device: 1)
    assert ask(capsys, study) == (2, [])  # the memory of a login node is not the job's


@pytest.mark.slow
@pytest.mark.parametrize("ending", [["--dry-run"], []], ids=["dry run", "submission"])
def test_the_launcher_rejects_a_study_whose_runs_cannot_start(study, tmp_path, ending):
    words = ["single", study, "--venv", sys.prefix, *ending, "--", "--buffers", "Uniform,HER"]
    done = launched(tmp_path, words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "runs 1, 3 of 4 cannot start: HER cannot store Pendulum-v1" in done.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_the_launcher_reports_missing_packages(study, tmp_path):
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "activate").write_text(f'PATH="{tmp_path}/env/bin:/usr/bin:/bin"\n')
    (tmp_path / "env" / "bin" / "python").symlink_to("/usr/bin/false")
    words = ["single", study, "--venv", str(tmp_path / "env"), "--dry-run"]
    done = launched(tmp_path, words)
    assert done.returncode == 2 and "cannot import ray" in done.stderr
    assert "cannot be checked" in done.stderr and "--no-check" in done.stderr
    done = launched(tmp_path, [*words, "--no-check", "--runs", "0-1"])
    assert done.returncode == 0 and "not checked" in done.stdout and "--array=0-1" in done.stdout


def launched(folder, words):
    """The launcher in a process of its own."""
    command = [sys.executable, HOME / "cluster_deployment/submit.py", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_the_launcher_prints_the_notes(study, tmp_path):
    words = ["single", study, "--mem", "100M", "--gpus", "1", "--venv", str(tmp_path / "env"), "--dry-run"]
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "activate").write_text(f'PATH="{Path(sys.executable).parent}:$PATH"\n')
    done = launched(tmp_path, words)
    assert done.returncode == 0, done.stderr
    assert "2 runs, results in" in done.stdout and "--array=0-1" in done.stdout
    assert "note: --gpus 1 would be idle" in done.stderr and "note: --mem 100M is too little" in done.stderr


def test_an_automatic_device_fits_jobs_with_and_without_gpus(study, capsys):
    small = ["--device", "auto", "--buffer_size", "1000"]
    assert ask(capsys, study, *small) == (2, [])
    assert ask(capsys, study, *small, gpus="1") == (2, [])
