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
_NAME = re.compile(r"(?:best_|kept_)?checkpoint_(\d+)")
_EXPECTED = "give the folder of a checkpoint, or of a run"


def parse_steps(checkpoint: Path) -> int:
    """Return the environment steps in the name of a checkpoint's folder, -1 for other names."""
    match = _NAME.fullmatch(checkpoint.name)
    return int(match[1]) if match else -1


def list_checkpoints(run: Path, prefix: str) -> list[Path]:
    """Return the checkpoints of a run whose names begin with a prefix, in descending order of environment steps."""
    found = [path for path in run.glob(f"{prefix}*") if parse_steps(path) >= 0]
    return sorted(found, key=parse_steps, reverse=True)


def is_checkpoint(folder: Path) -> bool:
    """Return whether a folder is a checkpoint of our algorithms or of RLlib."""
    return (folder / CHECKPOINT).exists() or (folder / METADATA).exists()


def find(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, the newest first, or the folder itself if it is one.

    The best and the kept checkpoints of runs are left out. Runs are ordered by the time of their last checkpoint, the
    checkpoints of a run by their numbers, because copies of a run often lose the times of its files.
    """
    if not folder.exists():
        raise UsageError(f"{folder} does not exist; {_EXPECTED}")
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; {_EXPECTED}")
    if is_checkpoint(folder):
        return [folder.absolute()]
    last: dict[Path, float] = {}  # time of the last checkpoint of each run
    for path in folder.absolute().glob("**/checkpoint_*/"):
        if parse_steps(path) >= 0 and is_checkpoint(path):
            file = path / CHECKPOINT
            if not file.exists():
                file = path / METADATA
            last[path.parent] = max(last.get(path.parent, -math.inf), file.stat().st_mtime)
    if not last:
        raise UsageError(f"{folder} holds no checkpoint; {_EXPECTED}")
    found: list[Path] = []
    for run in sorted(last, key=lambda run: (last[run], run), reverse=True):
        found += filter(is_checkpoint, list_checkpoints(run, "checkpoint_"))
    return found


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
    """Return the best checkpoint of a run; several, the newest first, if a process was killed while replacing it."""
    return list_checkpoints(run, "best_checkpoint_")


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
        if best is not None and parse_steps(path) >= 0:
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
