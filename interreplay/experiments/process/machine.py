"""Resources of this machine: installed versions, and the memory, CPUs and GPUs available to this process."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

import psutil
import torch

from interreplay.errors import UsageError

PACKAGES = ("interreplay", "ray", "torch", "numpy", "gymnasium", "mujoco")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that affect results."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def free_memory(device: str = "cpu", root: Path = Path("/")) -> int:
    """Return the available memory in bytes, limited by the machine, a Slurm job and control groups.

    Containers and schedulers limit processes by control groups (version 2), which psutil does not read.

    Args:
        device: A torch device. For ``"cuda"``, the free memory of the GPU.
        root: Root of the file system; tests pass a replica.
    """
    if device != "cpu":
        return torch.cuda.mem_get_info(device)[0]
    available = psutil.virtual_memory().available
    job = os.environ.get("SLURM_MEM_PER_NODE", "0")
    if int(job):
        available = min(available, int(job) * 2**20)
    try:
        group = root / "sys/fs/cgroup" / (root / "proc/self/cgroup").read_text().strip().removeprefix("0::/")
    except OSError:
        return available
    while group.is_relative_to(root / "sys/fs/cgroup"):
        try:
            free = int((group / "memory.max").read_text()) - int((group / "memory.current").read_text())
            statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            available = min(available, free + int(statistics["inactive_file"]))
        except (OSError, ValueError, KeyError):  # no such file, or the limit is "max"
            pass
        group = group.parent
    return max(0, available)


def count_cpus() -> int:
    """Return the number of CPUs available to this process: by its job, its control groups and its affinity."""
    from joblib import cpu_count

    return int(os.environ.get("SLURM_CPUS_PER_TASK") or cpu_count())


def count_gpus() -> int:
    """Return the number of GPUs available to torch."""
    return torch.cuda.device_count()


def choose_device(device: str, gpus: float) -> str:
    """Resolve the device ``auto``: ``cuda`` if a run has `gpus` GPUs, else ``cpu``. Return other devices unchanged."""
    if device != "auto":
        return device
    return "cuda" if gpus else "cpu"


def check_device(device: str) -> None:
    """Check that torch can use a device."""
    if device != "cpu" and not torch.cuda.is_available():
        build = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built without CUDA"
        raise UsageError(f"--device {device}: torch sees no such GPU here ({build}); use --device cpu")


def check_workers(workers: int, cpus: int | None = None) -> None:
    """Check that there is a CPU for each process that samples; `cpus` are this process's by default."""
    if cpus is None:
        cpus = count_cpus()
    if workers > cpus:
        raise UsageError(
            f"--num_workers {workers}: each takes a CPU, available: {format_count(cpus, 'CPU')}; "
            f"expected at most {cpus}"
        )


def check_room(cpus: int, gpus: float, have_cpus: int, have_gpus: float) -> None:
    """Check that one run of a study, with its env runners, fits the available resources instead of waiting forever."""
    if cpus > have_cpus:
        raise UsageError(
            f"a run takes {format_count(cpus, 'CPU')} (--cpus_per_trial and one for each of --num_workers), "
            f"available: {format_count(have_cpus, 'CPU')}; reduce these flags"
        )
    if gpus > have_gpus:
        raise UsageError(f"--gpus_per_trial {gpus:g}: available: {format_count(have_gpus, 'GPU')}; reduce it")


def format_count(number: float, noun: str) -> str:
    """Return a number with its noun: ``1 CPU``, ``2 CPUs``."""
    return f"{number:g} {noun}{'' if number == 1 else 's'}"
