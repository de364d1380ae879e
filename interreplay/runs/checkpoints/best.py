"""The best checkpoint of a run, which is kept beside the newest: why it is the best, and where it lies."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from interreplay.errors import UsageError
from interreplay.runs.state_files import manifest
from interreplay.runs.state_files.manifest import MANIFEST

BEST = "best.json"
NAME = "best_checkpoint_{:08d}"
_NAMED = re.compile(r"best_checkpoint_\d+")


class Best(NamedTuple):
    """Why a checkpoint is the best: evaluations count before returns in training, then the mean return.

    Attributes:
        evaluated: Whether the return is that of an evaluation.
        value: The mean return of its episodes.
    """

    evaluated: bool
    value: float

    def __str__(self) -> str:
        return f"{'evaluation' if self.evaluated else 'training'} return {self.value:,.1f}"


def found_in(result: Mapping[str, Any], evaluations: bool) -> Best | None:
    """Return what an iteration's result says of its networks, None where it says nothing.

    Args:
        result: With the returns of episodes in training, and of an evaluation where there was one.
        evaluations: Whether the run has evaluations; returns in training do not count then.
    """
    part = result.get("evaluation", {}) if evaluations else result
    value = float(part.get("env_runners", {}).get("episode_return_mean", math.nan))
    return None if math.isnan(value) else Best(evaluations, value)


def inside(run: Path) -> list[Path]:
    """Return the best checkpoint of a run; several where a process was killed while it replaced one."""
    return [path for path in sorted(run.glob("best_checkpoint_*")) if _NAMED.fullmatch(path.name)]


def read(checkpoint: Path) -> Best | None:
    """Return why a checkpoint was kept as the best, None where that cannot be read."""
    try:
        found = json.loads((checkpoint / BEST).read_text())
        return Best(bool(found["evaluated"]), float(found["value"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def best_of(folder: Path) -> Path:
    """Return the best checkpoint of a run, or of several runs in a folder.

    Raises:
        UsageError: There is none.
    """
    if not folder.is_dir() or (folder / MANIFEST).exists():
        raise UsageError(f"{folder} is not the folder of a run; expected one, whose best checkpoint is meant")
    found = {path.parent.absolute(): read(path.parent) for path in folder.glob(f"**/best_checkpoint_*/{BEST}")}
    known = {path: best for path, best in found.items() if best is not None and _NAMED.fullmatch(path.name)}
    if not known:
        raise UsageError(
            f"{folder} holds no best checkpoint; runs with --keep_best have one from their first "
            "evaluation on, or from their first episodes where there are no evaluations"
        )
    return max(known, key=lambda path: (known[path], path))


def mark(checkpoint: Path, best: Best, steps: int) -> None:
    """Write into a checkpoint why it is the best."""
    manifest.add(checkpoint, BEST, json.dumps(best._asdict() | {"env_steps": steps}) + "\n")


def share(checkpoint: Path, copy: Path) -> None:
    """Make a copy of a checkpoint whose files are those of the original where the disk allows it."""
    shutil.copytree(checkpoint, copy, copy_function=_linked)


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # as on disks without such links
        shutil.copy2(source, target)
