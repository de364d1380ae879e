"""What a process may compute with, in imitated control groups; and what is refused for want of it."""

from __future__ import annotations

import os

import pytest

from interreplay.errors import UsageError
from interreplay.experiments.process import processors
from interreplay.experiments.process.processors import check_device, check_room, check_workers, counted, own_cpus


@pytest.fixture(autouse=True)
def _no_job(monkeypatch):
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))


def group(root, lines: str, files: dict[str, str]):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(lines)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("lines", "files", "expected"),
    [
        ("", {}, 8),
        ("0::/job/step\n", {"job/step/cpu.max": "max 100000\n", "job/cpu.max": "250000 100000\n"}, 3),
        ("0::/job\n", {"job/cpu.max": "20000 100000\n"}, 1),
        ("0::/job\n", {"job/cpu.max": "9900000 100000\n"}, 8),
        ("4:cpu,cpuacct:/x\n", {"cpu/x/cpu.cfs_quota_us": "200000\n", "cpu/x/cpu.cfs_period_us": "100000\n"}, 2),
        ("4:cpu:/x\n", {"cpu/x/cpu.cfs_quota_us": "-1\n", "cpu/x/cpu.cfs_period_us": "100000\n"}, 8),
        ("4:memory:/x\n", {"cpu/x/cpu.cfs_quota_us": "100000\n", "cpu/x/cpu.cfs_period_us": "100000\n"}, 8),
    ],
)
def test_the_narrowest_of_affinity_and_control_groups_decides(lines, files, expected, tmp_path):
    group(tmp_path, lines, files)
    assert own_cpus(tmp_path) == expected


def test_a_jobs_own_number_decides_over_both(monkeypatch):
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "3")
    assert own_cpus() == 3


def test_what_is_not_there_is_refused_and_what_is_there_is_not(monkeypatch):
    monkeypatch.setattr(processors, "own_cpus", lambda: 2)
    check_workers(2)
    with pytest.raises(UsageError, match="--num_workers 3: .*available: 2 CPUs"):
        check_workers(3)
    check_room(2, 0.5, 2, 1)
    with pytest.raises(UsageError, match="a run takes 3 CPUs.*available: 1 CPU;"):
        check_room(3, 0, 1, 0)
    with pytest.raises(UsageError, match="--gpus_per_trial 0.5: available: 0 GPUs"):
        check_room(1, 0.5, 1, 0)


def test_devices(monkeypatch):
    check_device("cpu")
    monkeypatch.setattr(processors.torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="--device cuda: torch sees no such GPU"):
        check_device("cuda")
    monkeypatch.setattr(processors.torch.cuda, "is_available", lambda: True)
    check_device("cuda")


def test_numbers_have_the_nouns_form():
    assert [counted(n, "CPU") for n in (0, 0.5, 1, 2)] == ["0 CPUs", "0.5 CPUs", "1 CPU", "2 CPUs"]
