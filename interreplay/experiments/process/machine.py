"""Resources of this machine: installed versions, and the memory, CPUs and GPUs available to this process."""

from __future__ import annotations

import importlib.metadata
import math
import os
import platform
from collections.abc import Iterator
from pathlib import Path

import psutil
import torch

from interreplay.errors import UsageError

PACKAGES = ("interreplay", "ray", "torch", "numpy", "gymnasium", "mujoco")
MEMORY_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
"""By version of the control group: the files of its limit and usage, and the statistic that counts cached files."""
QUOTA_FILES = {1: ("cpu.cfs_quota_us", "cpu.cfs_period_us"), 2: ("cpu.max",)}
"""By version of the control group: the files of its CPU quota and the period of the quota."""


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that affect results."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def control_groups(root: Path, controller: str) -> Iterator[tuple[int, Path]]:
    """Yield the version (1 or 2) and the folder of each control group around this process, the innermost first.

    Containers and schedulers limit processes by control groups. psutil does not read these limits.

    Args:
        root: Root of the file system; tests pass a replica.
        controller: Name of the controller, such as "cpu" or "memory".
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            version = 2
            base = root / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            version = 1
            base = root / "sys/fs/cgroup" / controller
        else:
            continue
        innermost = base / path.strip("/")
        for group in [innermost, *innermost.parents]:
            if group == base.parent:
                break
            yield version, group


def free_memory(device: str = "cpu", root: Path = Path("/")) -> int:
    """Return the available memory in bytes, limited by the machine and by the control groups of this process.

    Args:
        device: A torch device. For ``"cuda"``, the free memory of the GPU.
        root: Root of the file system; tests pass a replica.
    """
    if device != "cpu":
        return torch.cuda.mem_get_info(device)[0]
    available = [psutil.virtual_memory().available]
    for version, group in control_groups(root, "memory"):
        limit, usage, cache = MEMORY_FILES[version]
        try:
            free = int((group / limit).read_text()) - int((group / usage).read_text())
            statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            available.append(free + int(statistics.get(cache, 0)))
        except (OSError, ValueError):  # no such file, or the limit is "max"
            continue
    return max(0, min(available))


def own_cpus(root: Path = Path("/")) -> int:
    """Return the number of CPUs available to this process: by its job, its control groups and its affinity.

    Args:
        root: Root of the file system; tests pass a replica.
    """
    job = os.environ.get("SLURM_CPUS_PER_TASK")
    if job:
        return int(job)
    available = [len(os.sched_getaffinity(0))]
    for version, group in control_groups(root, "cpu"):
        try:
            text = " ".join((group / name).read_text() for name in QUOTA_FILES[version])
            quota, period = map(int, text.split())
        except (OSError, ValueError):  # no such file, or the quota is "max"
            continue
        if quota > 0:
            available.append(math.ceil(quota / period))
    return max(1, min(available))


def own_gpus() -> int:
    """Return the number of GPUs available to torch."""
    return torch.cuda.device_count()


def chosen_device(device: str, gpus: float) -> str:
    """Resolve the device ``auto``: ``cuda`` if a run has `gpus` GPUs, else ``cpu``. Return other devices unchanged."""
    if device != "auto":
        return device
    return "cuda" if gpus else "cpu"


def check_device(device: str) -> None:
    """Check that torch can use a device.

    Raises:
        UsageError: torch cannot use it.
    """
    if device == "cpu" or torch.cuda.is_available():
        return
    build = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built without CUDA"
    raise UsageError(f"--device {device}: torch sees no such GPU here ({build}); use --device cpu")


def check_workers(workers: int) -> None:
    """Check that there is a CPU for each process that samples.

    Raises:
        UsageError: There are too few CPUs.
    """
    cpus = own_cpus()
    if workers > cpus:
        raise UsageError(
            f"--num_workers {workers}: each takes a CPU, available: {counted(cpus, 'CPU')}; expected at most {cpus}"
        )


def check_room(cpus: int, gpus: float, have_cpus: int, have_gpus: float) -> None:
    """Check that one run of a study fits the available resources; otherwise it would wait forever.

    Args:
        cpus: CPUs of one run, including its env runners.
        gpus: GPUs of one run.
        have_cpus: Available CPUs.
        have_gpus: Available GPUs.

    Raises:
        UsageError: One run takes more than is available.
    """
    if cpus > have_cpus:
        raise UsageError(
            f"a run takes {counted(cpus, 'CPU')} (--cpus_per_trial and one for each of --num_workers), "
            f"available: {counted(have_cpus, 'CPU')}; reduce these flags"
        )
    if gpus > have_gpus:
        raise UsageError(f"--gpus_per_trial {gpus:g}: available: {counted(have_gpus, 'GPU')}; reduce it")


def counted(number: float, noun: str) -> str:
    """Return a number with its noun: ``1 CPU``, ``2 CPUs``."""
    return f"{number:g} {noun}{'' if number == 1 else 's'}"
