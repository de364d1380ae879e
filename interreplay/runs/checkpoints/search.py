"""Find checkpoints in a folder, and read their descriptions."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from interreplay.errors import CheckpointError, UsageError
from interreplay.runs.state_files import manifest

CHECKPOINT = "checkpoint.json"
"""The file that describes a checkpoint of our algorithms."""
METADATA = "rllib_checkpoint.json"
"""The file that describes a checkpoint of RLlib's own algorithms."""
_EXPECTED = "give the folder of a checkpoint, or of a run"
_NUMBERED = re.compile(r"checkpoint_\d+")


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
        last[path.parent] = max(last.get(path.parent, -math.inf), _written(path))

    def order(path: Path) -> tuple[float, Path, int]:
        return last[path.parent], path.parent, int(path.name.rpartition("_")[2])

    return sorted(found, key=order, reverse=True)


def _written(checkpoint: Path) -> float:
    """Return the time at which a checkpoint was written."""
    file = checkpoint / CHECKPOINT
    if not file.exists():
        file = checkpoint / METADATA
    return file.stat().st_mtime


def read_description(checkpoint: Path) -> dict[str, Any]:
    """Return the contents of ``checkpoint.json`` of our algorithms, checked against its checksum."""
    path = checkpoint / CHECKPOINT
    try:
        text = path.read_text()
        manifest.check_one(checkpoint, CHECKPOINT)
        found = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{checkpoint} is not a readable checkpoint: {error}") from error
    if not isinstance(found, dict) or not {"fits", "class", "not_stored", "policy"} <= found.keys():
        raise CheckpointError(f"{path} is damaged: expected fits, class, not_stored and policy")
    return found
