"""What a job may use of the node that it is on: CPUs, memory, threads, files and GPUs."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
from pathlib import Path

import psutil

NEEDED = {"memory": 1.5e9, "shared memory": 80e6, "threads": 2_000, "files": 4_096}


class NodeProblem(Exception):
    """What would go wrong, and how to fix it."""

    def __init__(self, problem: str, fix: str):
        super().__init__(problem)
        self.fix = fix


def cpus() -> str:
    """Check that the job's CPUs are those that a process here may use, and no library starts more threads than that."""
    usable, node = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    owned = int(os.environ.get("SLURM_CPUS_ON_NODE", usable))
    if usable < owned:
        raise NodeProblem(
            f"a process may use {usable} of the job's {owned} CPUs", "srun --cpu-bind=none, or -c with all of them"
        )
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        if os.environ.get(name, "1").isdigit() and int(os.environ.get(name, "1")) > owned:
            raise NodeProblem(f"{name}={os.environ[name]}, with {owned} CPUs", f"unset {name}")
    seen = f", Ray by itself would see {node}" if node != owned else ""
    return f"{owned}{seen}"


def memory() -> str:
    """Check that the job has enough memory for a run."""
    node = psutil.virtual_memory().total
    owned = min(node, *(value for value in (slurm_memory(), cgroup_memory()) if value), node)
    if owned < NEEDED["memory"]:
        raise NodeProblem(f"{owned / 1e9:.1f} GB; one run takes 1.5 GB and its replay buffer", "sbatch --mem=4G")
    return f"{owned / 1e9:.1f} of the node's {node / 1e9:.1f} GB"


def slurm_memory() -> float:
    """Return what the job asked for on this node, in bytes; 0 where it did not."""
    shown = output("scontrol", "show", "job", os.environ["SLURM_JOB_ID"]) if "SLURM_JOB_ID" in os.environ else ""
    match = re.search(r"MinMemory(Node|CPU)=([\d.]+)([KMGT]?)", shown)
    if not match:
        return 0.0
    times = float(os.environ.get("SLURM_CPUS_ON_NODE", 1)) if match[1] == "CPU" else 1.0
    return times * float(match[2]) * 1024 ** "KMGT".index(match[3] or "M") * 1024


def cgroup_memory() -> float:
    """Return the limit of this process's control group in bytes, of either version; 0 where there is none."""
    groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    for _, controllers, path in groups:
        for file in (f"/sys/fs/cgroup{path}/memory.max", f"/sys/fs/cgroup/memory{path}/memory.limit_in_bytes"):
            if ("memory" in controllers or not controllers) and Path(file).is_file():
                text = Path(file).read_text().strip()
                return float(text) if text.isdigit() and float(text) < 2**60 else 0.0
    return 0.0


def shared_memory() -> str:
    """Check that there is room for the objects that Ray's processes share."""
    free = shutil.disk_usage("/dev/shm").free
    if free < NEEDED["shared memory"]:
        raise NodeProblem(
            f"{free / 1e6:.0f} MB free in /dev/shm; Ray wants {NEEDED['shared memory'] / 1e6:.0f}",
            "a container's --shm-size, or bind the node's /dev/shm into it",
        )
    return f"{free / 1e6:.0f} MB free"


def limits() -> str:
    """Check that this user may have enough threads and open files."""
    threads, files = (resource.getrlimit(kind)[1] for kind in (resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE))
    for name, value, letter in (("threads", threads, "u"), ("files", files, "n")):
        if 0 <= value < NEEDED[name]:
            raise NodeProblem(
                f"{value} {name} of one user, {NEEDED[name]:.0f} wanted",
                f"ask for a higher `ulimit -{letter}`; until then fewer runs at a time: --max-concurrent, --at-once",
            )
    return ", ".join(
        f"{'no limit of' if value < 0 else value} {n}" for n, value in (("threads", threads), ("files", files))
    )


def gpus() -> str:
    """Check that the GPUs that the job was given are those that torch sees."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES", os.environ.get("SLURM_JOB_GPUS", ""))
    given = len([word for word in listed.split(",") if word not in ("", "-1", "NoDevFiles")])
    import torch

    if "SLURM_JOB_ID" in os.environ and not given and torch.cuda.is_available():
        raise NodeProblem("the job asked for no GPU, but sees some that belong to others", "sbatch --gres=gpu:1")
    if given > (seen := torch.cuda.device_count()):
        build = (
            "a build of torch without CUDA" if torch.version.cuda is None else f"built for CUDA {torch.version.cuda}"
        )
        raise NodeProblem(f"torch sees {seen} of {given} GPUs", f"nvidia-smi should list them; this is {build}")
    return f"{given}" if given else "none"


def output(*command: str) -> str:
    """Return what a command prints; nothing where it fails or is missing."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout
    except OSError:
        return ""
