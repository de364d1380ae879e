"""The control groups around this process, by which containers and schedulers limit what it may take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def control_groups(root: Path, controller: str) -> Iterator[tuple[int, Path]]:
    """Yield the version, 1 or 2, and the folder of each group around this process, the innermost first.

    Args:
        root: Where the file system begins; tests put an imitation here.
        controller: Such as "cpu" or "memory".
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            version, base = 2, root / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            version, base = 1, root / "sys/fs/cgroup" / controller
        else:
            continue
        here = base / path.strip("/")
        for group in [here, *here.parents]:
            if group == base.parent:
                break
            yield version, group
