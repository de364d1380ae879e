"""Memory, CPUs and GPUs of a process, with replicas of control groups."""

from __future__ import annotations

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

V2 = ("memory.max", "memory.current", "inactive_file")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
MEMORY = {
    "the narrowest group decides; cached files count as free": (
        "0::/job/step\n",
        [("job/step/", V2, "max", 100, 0), ("job/", V2, 1000, 400, 50)],
        650,
    ),
    "version 1": ("9:name=systemd:/\n5:cpu,memory:/job\n", [("memory/job/", V1, 1000, 400, 0)], 600),
    "an exceeded limit leaves nothing": ("0::/\n", [("", V2, 100, 400, 0)], 0),
}
CPUS = [
    ("", {}, 8),
    ("0::/job/step\n", {"job/step/cpu.max": "max 100000\n", "job/cpu.max": "250000 100000\n"}, 3),
    ("0::/job\n", {"job/cpu.max": "20000 100000\n"}, 1),
    ("0::/job\n", {"job/cpu.max": "9900000 100000\n"}, 8),
    ("4:cpu,cpuacct:/x\n", {"cpu/x/cpu.cfs_quota_us": "200000\n", "cpu/x/cpu.cfs_period_us": "100000\n"}, 2),
    ("4:cpu:/x\n", {"cpu/x/cpu.cfs_quota_us": "-1\n", "cpu/x/cpu.cfs_period_us": "100000\n"}, 8),
    ("4:memory:/x\n", {"cpu/x/cpu.cfs_quota_us": "100000\n", "cpu/x/cpu.cfs_period_us": "100000\n"}, 8),
]


@pytest.fixture(autouse=True)
def _eight_cpus_outside_of_jobs(monkeypatch):
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))


def write_groups(root, lines, files):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(lines)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(("lines", "groups", "expected"), MEMORY.values(), ids=MEMORY)
def test_free_memory_of_control_groups(lines, groups, expected, tmp_path):
    files = {}
    for folder, (limit, usage, cache), *values, cached in groups:
        files[folder + limit] = str(values[0])
        files[folder + usage] = str(values[1])
        files[f"{folder}memory.stat"] = f"anon 1\n{cache} {cached}\n"
    write_groups(tmp_path, lines, files)
    assert free_memory(root=tmp_path) == expected


def test_free_memory_of_the_machine(tmp_path):
    assert free_memory(root=tmp_path) == pytest.approx(psutil.virtual_memory().available, rel=0.2)


@pytest.mark.parametrize(("lines", "files", "expected"), CPUS)
def test_cpus_are_the_minimum_of_affinity_and_control_groups(lines, files, expected, tmp_path):
    write_groups(tmp_path, lines, files)
    assert own_cpus(tmp_path) == expected


def test_a_slurm_job_overrides_affinity_and_control_groups(monkeypatch):
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
