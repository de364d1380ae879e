"""The smoke test: packages, resources and folders of a node; each problem is reported with a fix."""

import importlib
import importlib.metadata
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from interreplay.experiments.commands import smoketest
from interreplay.experiments.commands.smoketest import NodeProblem
from interreplay.experiments.process.machine import count_cpus, free_memory

SCRIPTS = Path(__file__).resolve().parents[3] / "cluster_deployment"


@pytest.fixture(autouse=True)
def _outside_of_any_job(monkeypatch):
    for name in [name for name in os.environ if name.startswith(("SLURM_", "INTERREPLAY_", "RAY_A"))]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def problem_of(check, *arguments):
    with pytest.raises(NodeProblem) as caught:
        check(*arguments)
    return str(caught.value), caught.value.fix


def test_gpus_that_torch_does_not_see(monkeypatch):
    for none in ("", "-1", "NoDevFiles"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", none)
        assert smoketest.gpus() == "0"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(99))))
    assert "of 99 GPUs" in problem_of(smoketest.gpus)[0]


def test_folders(tmp_path, monkeypatch):
    assert smoketest.scratch(SCRIPTS).endswith("GB free")
    with monkeypatch.context() as patch:
        patch.setattr(smoketest, "SOCKET", "x" * 120)
        assert "shorter folder" in problem_of(smoketest.scratch, SCRIPTS)[1]
    with monkeypatch.context() as patch:
        patch.setenv("INTERREPLAY_SCRATCH", str(tmp_path / ("long" * 10)))
        problem, fix = problem_of(smoketest.scratch, SCRIPTS)
        assert "longer than 38 characters" in problem and "--scratch" in fix
    assert "clone" in problem_of(smoketest.scratch, tmp_path / "none")[1]
    assert smoketest.results_folder(tmp_path / "new").endswith("new")
    (tmp_path / "file").touch()
    assert "--output_dir" in problem_of(smoketest.results_folder, tmp_path / "file")[1]
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=64e6))
    assert "0.1 GB free" in problem_of(smoketest.scratch, SCRIPTS)[0]


def test_the_longest_scratch_folder_leaves_room_for_the_socket():
    # Ray's folder is `ray` on the head and `n999` on the thousandth node.
    assert 38 + len("/") + len(smoketest.SOCKET) + len("n999") - len("ray") == 107


@pytest.mark.slow
def test_two_rays_start_at_once(monkeypatch):
    assert smoketest.check_two_rays(SCRIPTS) == "both run a task"
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    assert "exit code 1" in problem_of(smoketest.check_two_rays, SCRIPTS)[0]


def test_a_ray_that_hangs_is_ended_after_the_other_has_failed(monkeypatch, tmp_path):
    started = []

    class Recorded(subprocess.Popen):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            started.append(self)

    monkeypatch.setattr(smoketest.subprocess, "Popen", Recorded)
    monkeypatch.setattr(smoketest, "choose_scratch", lambda scripts: str(tmp_path / "scratch_"))
    fails_first = "import os, time; os.environ['RAY_TMPDIR'].endswith('a') and exit(3); time.sleep(600)"
    monkeypatch.setattr(smoketest, "START_RAY", fails_first)
    assert "exit code 3" in problem_of(smoketest.check_two_rays, SCRIPTS)[0]
    assert started[1].wait(timeout=60) == -signal.SIGKILL


def write_group(root, folder, limit, used, cached):
    """A control group of version 2; `limit` may be "max"."""
    path = root / "sys/fs/cgroup" / folder
    path.mkdir(parents=True, exist_ok=True)
    (path / "memory.max").write_text(f"{limit}\n")
    (path / "memory.current").write_text(f"{used}\n")
    (path / "memory.stat").write_text(f"anon 1\ninactive_file {cached}\n")


def test_free_memory_of_control_groups(tmp_path, monkeypatch):
    machine_memory = pytest.approx(psutil.virtual_memory().available, rel=0.2)
    assert free_memory(root=tmp_path) == machine_memory, "without control groups"
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/job/step\n")
    write_group(tmp_path, "job/step", "max", 100, 0)
    assert free_memory(root=tmp_path) == machine_memory
    write_group(tmp_path, "job", 1000, 400, 50)
    assert free_memory(root=tmp_path) == 650, "the narrowest group decides; cached files count as free"
    write_group(tmp_path, "", 100, 400, 0)
    assert free_memory(root=tmp_path) == 0, "an exceeded limit leaves nothing"
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "1")
    assert free_memory(root=tmp_path / "none") == 2**20


def test_cpus_are_the_job_s_or_the_affinity_s(monkeypatch):
    assert count_cpus() <= len(os.sched_getaffinity(0))
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "3")
    assert count_cpus() == 3


@pytest.mark.slow
def test_a_complete_installation(capsys):
    assert smoketest.main() == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert all(line.startswith("ok ") for line in lines[:-1])
    assert lines[-1].startswith("all checks passed")
    for part in ["torch:", "mujoco steps:", "training: SAC"]:
        assert any(part in line for line in lines), part


def test_a_package_of_another_version_or_that_cannot_be_imported(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(importlib.metadata, "version", lambda name: "1.0")
        with pytest.raises(NodeProblem, match=r"1.0 is installed, .*>=2.4.* is required") as caught:
            smoketest.package("torch >=2.4,<3")
        assert 'pip install "torch >=2.4,<3"' in caught.value.fix
        patch.setattr(importlib.metadata, "version", lambda name: "2.13.0+cpu")
        assert smoketest.package("numpy ==2.13.0") == "2.13.0+cpu"
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(NodeProblem, match="cannot be imported") as caught:
        smoketest.package("tqdm >=4")
    assert "--force-reinstall" in caught.value.fix


def test_every_failure_is_reported_and_the_rest_still_runs(monkeypatch, capsys):
    def broken():
        raise RuntimeError("first\nsecond")

    def silent():
        raise AssertionError

    def found():
        raise NodeProblem("a trap", "how to fix it")

    checks = {"a": broken, "b": lambda: "fine", "c": silent, "d": found}
    monkeypatch.setattr(smoketest, "node_checks", lambda scripts, results: checks)
    assert smoketest.main(["--cluster"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "FAIL  a: RuntimeError: first"
    assert lines[1].startswith("      fix: ")
    assert lines[2] == "ok    b: fine"
    assert lines[3] == "FAIL  c: AssertionError"
    assert lines[5:7] == ["FAIL  d: a trap", "      fix: how to fix it"]
    assert lines[7].startswith("3 of 4 checks failed")
