"""What this machine has: installed versions, and how much memory this process may still take."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterator
from pathlib import Path

import psutil
import torch

from interreplay.experiments.process.control_groups import control_groups

MEMORY_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
"""Of a control group by its version: files of its limit and its usage, and which of its statistics is a cache."""
PACKAGES = ("interreplay", "ray", "torch", "numpy", "gymnasium", "mujoco")


def versions() -> dict[str, str]:
    """Return the versions that decide what a run does."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def free_memory(device: str = "cpu", root: Path = Path("/")) -> int:
    """Return bytes of memory that can be taken now, by the machine and by the control groups around this process.

    Args:
        device: A torch device; of ``"cuda"`` its own memory counts.
        root: Where the file system begins; tests put an imitation here.
    """
    if device != "cpu":
        return torch.cuda.mem_get_info(device)[0]
    return max(0, min([psutil.virtual_memory().available, *_group_allowances(root)]))


def _group_allowances(root: Path) -> Iterator[int]:
    """Yield what each enclosing control group has left."""
    for version, group in control_groups(root, "memory"):
        left = _left(group, *MEMORY_FILES[version])
        if left is not None:
            yield left


def _left(group: Path, limit: str, usage: str, cache: str) -> int | None:
    """Return the limit less the usage, where pages that only cache files count as free; None without a limit."""
    try:
        most = (group / limit).read_text().strip()
        used = int((group / usage).read_text())
        statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    return None if most == "max" else int(most) - used + int(statistics.get(cache, 0))
