"""What this process may compute with: CPUs of the machine, the job or the control group, and GPUs."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

import torch

from interreplay.errors import UsageError
from interreplay.experiments.process.control_groups import control_groups

QUOTA_FILES = {1: ("cpu.cfs_quota_us", "cpu.cfs_period_us"), 2: ("cpu.max",)}
"""Files of a control group, by its version, that hold its quota and the period that it is of."""


def own_cpus(root: Path = Path("/")) -> int:
    """Return how many CPUs this process may run on: those of its job, its control groups and its affinity.

    Args:
        root: Where the file system begins; tests put an imitation here.
    """
    job = os.environ.get("SLURM_CPUS_PER_TASK")
    if job:
        return int(job)
    return max(1, min([len(os.sched_getaffinity(0)), *(math.ceil(quota) for quota in _quotas(root))]))


def own_gpus() -> int:
    """Return how many GPUs torch sees here."""
    return torch.cuda.device_count()


def chosen_device(device: str, gpus: float) -> str:
    """Return the device that ``auto`` is where there are so many GPUs for a run; others as they are."""
    return device if device != "auto" else "cuda" if gpus else "cpu"


def check_device(device: str) -> None:
    """Refuse a device that this machine lacks.

    Raises:
        UsageError: torch cannot use it.
    """
    if device != "cpu" and not torch.cuda.is_available():
        build = f"a build for CUDA {torch.version.cuda}" if torch.version.cuda else "a build of torch without CUDA"
        raise UsageError(f"--device {device}: torch sees no such GPU here ({build}); --device cpu needs none")


def check_workers(workers: int) -> None:
    """Refuse more processes that sample than there are CPUs for.

    Raises:
        UsageError: There are too many.
    """
    if workers > (cpus := own_cpus()):
        raise UsageError(
            f"--num_workers {workers}: each takes a CPU, available: {counted(cpus, 'CPU')}; give at most that, or 0"
        )


def check_room(cpus: int, gpus: float, have_cpus: int, have_gpus: float) -> None:
    """Refuse runs of a study that would wait for ever.

    Args:
        cpus: That one run takes, those of its env runners included.
        gpus: Likewise.
        have_cpus: That there are.
        have_gpus: Likewise.

    Raises:
        UsageError: One run takes more than there is.
    """
    if cpus > have_cpus:
        raise UsageError(
            f"a run takes {counted(cpus, 'CPU')}, --cpus_per_trial and one for each of --num_workers, "
            f"available: {counted(have_cpus, 'CPU')}; lower these"
        )
    if gpus > have_gpus:
        raise UsageError(f"--gpus_per_trial {gpus:g}: available: {counted(have_gpus, 'GPU')}; lower it")


def counted(number: float, noun: str) -> str:
    """Return a number with its noun: ``1 CPU``, ``2 CPUs``."""
    return f"{number:g} {noun}{'' if number == 1 else 's'}"


def _quotas(root: Path) -> Iterator[float]:
    """Yield the CPUs that each enclosing control group allows."""
    for version, group in control_groups(root, "cpu"):
        quota = _quota([group / name for name in QUOTA_FILES[version]])
        if quota is not None:
            yield quota


def _quota(files: list[Path]) -> float | None:
    """Return the quota over the period in the files of a control group; None without a limit."""
    try:
        quota, period = " ".join(file.read_text() for file in files).split()
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError):  # no such file, or no limit, which is called "max"
        return None
