"""Each known problem of a cluster's node is found and reported with a fix."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from interreplay.experiments.cluster_checks import checks
from interreplay.experiments.cluster_checks.checks import NodeProblem
from interreplay.experiments.commands import smoketest

SCRIPTS = Path(__file__).resolve().parents[3] / "cluster_deployment"


@pytest.fixture(autouse=True)
def _outside_of_any_job(monkeypatch):
    for name in [name for name in os.environ if name.startswith(("SLURM_", "INTERREPLAY_", "RAY_A"))]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def problem_of(check, *arguments):
    with pytest.raises(NodeProblem) as caught:
        check(*arguments)
    return str(caught.value), caught.value.fix


def test_without_slurm_and_outside_of_a_job(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "Slurm is not installed" in problem_of(checks.job)[0]
    monkeypatch.setattr(shutil, "which", lambda name: name)
    problem, fix = problem_of(checks.job)
    assert "outside of a job" in problem and fix.startswith("srun ")
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    assert checks.job().startswith("12 on ")


def test_a_job_that_cannot_be_requeued(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setattr(checks, "job_description", lambda: "Requeue=0 EndTime=2030-01-01T00:00:00")
    assert "--requeue" in problem_of(checks.requeueing)[1]
    monkeypatch.setattr(checks, "job_description", lambda: "Requeue=1 EndTime=2030-01-01T00:00:00")
    assert checks.requeueing() == "allowed; the job ends at 2030-01-01T00:00:00"


def test_fewer_cpus_than_the_job_has(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "8")
    problem, fix = problem_of(checks.cpus)
    assert problem == "a process may use 1 of the job's 8 CPUs" and "--cpu-bind=none" in fix


def test_more_threads_than_cpus(monkeypatch):
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    assert problem_of(checks.cpus) == ("OMP_NUM_THREADS=64, with 1 CPUs", "unset OMP_NUM_THREADS")


@pytest.mark.parametrize(
    ("shown", "expected"), [("MinMemoryNode=3000M", 3000), ("MinMemoryCPU=2G", 8192), ("MinMemoryNode=1.50G", 1536)]
)
def test_the_memory_of_the_job_and_not_of_the_node(shown, expected, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "4")
    monkeypatch.setattr(checks, "job_description", lambda: shown)
    assert checks.slurm_memory() == expected * 2**20


def test_too_little_memory(monkeypatch):
    monkeypatch.setattr(checks, "cgroup_memory", lambda: 1e9)
    assert problem_of(checks.memory)[1] == "sbatch --mem=4G"


def test_a_small_shared_memory(monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=64e6))
    problem, fix = problem_of(checks.shared_memory)
    assert "64 MB free" in problem and "--shm-size" in fix


@pytest.mark.parametrize(("kind", "letter"), [(resource.RLIMIT_NPROC, "u"), (resource.RLIMIT_NOFILE, "n")])
def test_low_limits(kind, letter, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda asked: (100, 100) if asked == kind else (-1, -1))
    problem, fix = problem_of(checks.limits)
    assert problem.startswith("one user may have 100 ") and f"ulimit -{letter}" in fix


def test_gpus_that_torch_does_not_see(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(99))))
    assert "of 99 GPUs" in problem_of(checks.gpus)[0]


def test_a_scratch_folder_with_a_long_path(tmp_path, monkeypatch):
    monkeypatch.setenv("INTERREPLAY_SCRATCH", str(tmp_path / ("long" * 10)))
    problem, fix = problem_of(checks.scratch, SCRIPTS)
    assert "longer than 38 characters" in problem and "--scratch" in fix


def test_a_full_scratch_folder(monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1e9))
    assert "1.0 GB free" in problem_of(checks.scratch, SCRIPTS)[0]


def test_without_the_batch_scripts(tmp_path):
    assert "clone" in problem_of(checks.scratch, tmp_path / "none")[1]


def test_sockets_are_really_made(monkeypatch):
    assert checks.sockets(SCRIPTS).endswith("of 107 bytes")
    monkeypatch.setattr(checks, "SOCKET", "x" * 120)
    assert "shorter folder" in problem_of(checks.sockets, SCRIPTS)[1]


def test_the_longest_scratch_folder_leaves_room_for_the_socket():
    # Ray's folder is `ray` on the head and `n999` on the thousandth node.
    assert 38 + len("/") + len(checks.SOCKET) + len("n999") - len("ray") == 107


def test_no_address_for_others(monkeypatch):
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: {})
    assert "jobs of one node" in problem_of(checks.addresses)[1]


@pytest.mark.parametrize(("name", "value"), [("RAY_ADDRESS", "10.0.0.1:6379"), ("RAY_AUTH_MODE", "disabled")])
def test_settings_that_lead_elsewhere(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    problem, fix = problem_of(checks.settings)
    assert value in problem and fix == f"unset {name}"


def test_results(tmp_path, monkeypatch):
    assert checks.results_folder(tmp_path / "new").endswith("new, with locking")
    monkeypatch.setattr(checks, "lockable", lambda descriptor: False)
    assert checks.results_folder(tmp_path).endswith("without locking")
    (tmp_path / "file").touch()
    assert "--output_dir" in problem_of(checks.results_folder, tmp_path / "file")[1]


@pytest.mark.slow
def test_two_rays_start_at_once():
    assert checks.two_at_once(SCRIPTS) == "both run a task"


@pytest.mark.slow
def test_a_ray_that_does_not_start(monkeypatch):
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    assert "exit code 1" in problem_of(checks.two_at_once, SCRIPTS)[0]


def test_the_command_line(monkeypatch, capsys):
    def found():
        raise NodeProblem("a trap", "how to fix it")

    monkeypatch.setattr(checks, "checks", lambda scripts, results: iter([("one", found), ("two", lambda: "fine")]))
    assert smoketest.main(["--cluster"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["FAIL  one: a trap", "      fix: how to fix it", "ok    two: fine"]


def test_an_unknown_flag():
    done = subprocess.run(
        [sys.executable, smoketest.__file__, "--clustre"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 2 and "--clustre" in done.stderr
