"""Memory, CPUs and GPUs of a process, with replicas of control groups."""

import os

import psutil
import pytest

from interreplay.errors import UsageError
from interreplay.experiments.process import machine
from interreplay.experiments.process.machine import (
    check_device,
    check_room,
    check_workers,
    counted,
    free_memory,
    own_cpus,
    versions,
)


@pytest.fixture(autouse=True)
def _outside_of_jobs(monkeypatch):
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    monkeypatch.delenv("SLURM_MEM_PER_NODE", raising=False)


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
    assert own_cpus() <= len(os.sched_getaffinity(0))
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "3")
    assert own_cpus() == 3


def test_missing_resources_are_rejected(monkeypatch):
    monkeypatch.setattr(machine, "own_cpus", lambda: 2)
    check_workers(2)
    with pytest.raises(UsageError, match="--num_workers 3: .*available: 2 CPUs"):
        check_workers(3)
    check_room(2, 0.5, 2, 1)
    with pytest.raises(UsageError, match=r"a run takes 3 CPUs.*available: 1 CPU;"):
        check_room(3, 0, 1, 0)
    with pytest.raises(UsageError, match=r"--gpus_per_trial 0.5: available: 0 GPUs"):
        check_room(1, 0.5, 1, 0)
    check_device("cpu")
    monkeypatch.setattr(machine.torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="--device cuda: torch sees no such GPU"):
        check_device("cuda")
    monkeypatch.setattr(machine.torch.cuda, "is_available", lambda: True)
    check_device("cuda")


def test_counted_and_versions():
    assert [counted(n, "CPU") for n in (0, 0.5, 1, 2)] == ["0 CPUs", "0.5 CPUs", "1 CPU", "2 CPUs"]
    assert versions()["torch"][0].isdigit() and "ray" in versions()
