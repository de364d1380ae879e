"""The best checkpoint of a run, which is kept in addition to the newest ones."""

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
    """Mean return by which the best checkpoint is chosen. Evaluations rank above training, then larger returns."""

    evaluated: bool
    value: float

    def __str__(self) -> str:
        kind = "evaluation" if self.evaluated else "training"
        return f"{kind} return {self.value:,.1f}"


def found_in(result: Mapping[str, Any], evaluations: bool) -> Best | None:
    """Return the mean return of a result, None if it has none; of training if the run has no evaluations."""
    if evaluations:
        result = result.get("evaluation", {})
    value = float(result.get("env_runners", {}).get("episode_return_mean", math.nan))
    if math.isnan(value):
        return None
    return Best(evaluations, value)


def inside(run: Path) -> list[Path]:
    """Return the best checkpoint of a run; several if a process was killed while replacing it."""
    return [path for path in sorted(run.glob("best_checkpoint_*")) if _NAMED.fullmatch(path.name)]


def read(checkpoint: Path) -> Best | None:
    """Return the mean return stored in a best checkpoint, None if it cannot be read."""
    try:
        found = json.loads((checkpoint / BEST).read_text())
        return Best(bool(found["evaluated"]), float(found["value"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def best_of(folder: Path) -> Path:
    """Return the best checkpoint of a run, or of several runs in a folder."""
    if not folder.is_dir() or (folder / MANIFEST).exists():
        raise UsageError(f"{folder} is not the folder of a run; expected the folder of a run with a best checkpoint")
    known = []
    for file in folder.glob(f"**/best_checkpoint_*/{BEST}"):
        path = file.parent.absolute()
        best = read(path)
        if best is not None and _NAMED.fullmatch(path.name):
            known.append((best, path))
    if not known:
        raise UsageError(
            f"{folder} holds no best checkpoint; runs with --keep_best have one after their first "
            "evaluation, or after their first episodes if there are no evaluations"
        )
    return max(known)[1]


def mark(checkpoint: Path, best: Best, steps: int) -> None:
    """Store the mean return of the best checkpoint in its folder."""
    manifest.add(checkpoint, BEST, json.dumps(best._asdict() | {"env_steps": steps}) + "\n")


def share(checkpoint: Path, copy: Path) -> None:
    """Copy a checkpoint with hard links, or with copies of its files if the file system has no hard links."""

    def link(source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)

    shutil.copytree(checkpoint, copy, copy_function=link)
