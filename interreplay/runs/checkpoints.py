"""Checkpoints in the folders of runs: search, descriptions, and the best checkpoint of a run."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from interreplay.errors import CheckpointError, UsageError
from interreplay.runs.results.reader import mean_return
from interreplay.runs.state_files import manifest
from interreplay.runs.state_files.manifest import MANIFEST

CHECKPOINT = "checkpoint.json"
"""The file that describes a checkpoint of our algorithms."""
METADATA = "rllib_checkpoint.json"
"""The file that describes a checkpoint of RLlib's own algorithms."""
BEST = "best.json"
BEST_NAME = "best_checkpoint_{:08d}"
_NUMBERED = re.compile(r"checkpoint_\d+")
_BEST = re.compile(r"best_checkpoint_\d+")
_EXPECTED = "give the folder of a checkpoint, or of a run"


def is_checkpoint(folder: Path) -> bool:
    """Return whether a folder is a checkpoint of our algorithms or of RLlib."""
    return (folder / CHECKPOINT).exists() or (folder / METADATA).exists()


def find(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, the newest first, or the folder itself if it is one.

    Runs are ordered by the time of their last checkpoint, the checkpoints of a run by their numbers, because copies of
    a run often lose the times of its files.
    """
    if not folder.exists():
        raise UsageError(f"{folder} does not exist; {_EXPECTED}")
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; {_EXPECTED}")
    if is_checkpoint(folder):
        return [folder.absolute()]
    found = []
    for path in folder.glob("**/checkpoint_*/"):
        if _NUMBERED.fullmatch(path.name) and is_checkpoint(path):
            found.append(path.absolute())
    if not found:
        raise UsageError(f"{folder} holds no checkpoint; {_EXPECTED}")
    last: dict[Path, float] = {}
    for path in found:
        file = path / CHECKPOINT
        if not file.exists():
            file = path / METADATA
        last[path.parent] = max(last.get(path.parent, -math.inf), file.stat().st_mtime)

    def order(path: Path) -> tuple[float, Path, int]:
        return last[path.parent], path.parent, int(path.name.rpartition("_")[2])

    return sorted(found, key=order, reverse=True)


def read_description(checkpoint: Path) -> dict[str, Any]:
    """Return the contents of ``checkpoint.json`` of our algorithms, checked against its checksum."""
    found = manifest.read_values(checkpoint, CHECKPOINT)
    if not {"fits", "class", "not_stored", "policy"} <= found.keys():
        raise CheckpointError(f"{checkpoint / CHECKPOINT} is damaged: expected fits, class, not_stored and policy")
    return found


class BestReturn(NamedTuple):
    """Mean return by which the best checkpoint is chosen. Evaluations rank above training, then larger returns."""

    evaluated: bool
    value: float

    def __str__(self) -> str:
        kind = "evaluation" if self.evaluated else "training"
        return f"{kind} return {self.value:,.1f}"


def find_return(result: Mapping[str, Any], evaluations: bool) -> BestReturn | None:
    """Return the mean return of a result, None if it has none; of training if the run has no evaluations."""
    if evaluations:
        result = result.get("evaluation", {})
    value = mean_return(result)
    if math.isnan(value):
        return None
    return BestReturn(evaluations, value)


def best_checkpoints(run: Path) -> list[Path]:
    """Return the best checkpoint of a run; several if a process was killed while replacing it."""
    return [path for path in sorted(run.glob("best_checkpoint_*")) if _BEST.fullmatch(path.name)]


def read_best(checkpoint: Path) -> BestReturn | None:
    """Return the mean return stored in a best checkpoint, None if it cannot be read."""
    try:
        found = json.loads((checkpoint / BEST).read_text())
        return BestReturn(bool(found["evaluated"]), float(found["value"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def find_best(folder: Path) -> Path:
    """Return the best checkpoint of a run, or of several runs in a folder."""
    if not folder.is_dir() or (folder / MANIFEST).exists():
        raise UsageError(f"{folder} is not the folder of a run; expected the folder of a run with a best checkpoint")
    known = []
    for file in folder.glob(f"**/best_checkpoint_*/{BEST}"):
        path = file.parent.absolute()
        best = read_best(path)
        if best is not None and _BEST.fullmatch(path.name):
            known.append((best, path))
    if not known:
        raise UsageError(
            f"{folder} holds no best checkpoint; runs with --keep_best have one after their first "
            "evaluation, or after their first episodes if there are no evaluations"
        )
    return max(known)[1]


def copy_with_links(checkpoint: Path, copy: Path) -> None:
    """Copy a checkpoint with hard links, or with copies of its files if the file system has no hard links."""

    def link(source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)

    shutil.copytree(checkpoint, copy, copy_function=link)
