"""Find the checkpoints in a folder, and read what they belong to."""

from __future__ import annotations

import json
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
    """Return whether a folder is a checkpoint of our algorithms or of RLlib's."""
    return (folder / CHECKPOINT).exists() or (folder / METADATA).exists()


def find(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, the newest first, or the folder itself if it is one.

    Raises:
        UsageError: There is none.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} {'is no folder' if folder.exists() else 'does not exist'}; {_EXPECTED}")
    if is_checkpoint(folder):
        return [folder.absolute()]
    numbered = (path for path in folder.glob("**/checkpoint_*/") if _NUMBERED.fullmatch(path.name))
    found = [path for path in numbered if is_checkpoint(path)]
    if not found:
        raise UsageError(f"{folder} holds no checkpoint; {_EXPECTED}")
    ordered = sorted(found, key=lambda path: (_written(path), path), reverse=True)
    return [path.absolute() for path in ordered]


def _written(checkpoint: Path) -> float:
    """Return when a checkpoint was written, in seconds."""
    name = CHECKPOINT if (checkpoint / CHECKPOINT).exists() else METADATA
    return (checkpoint / name).stat().st_mtime


def newest_of(folder: Path) -> Path:
    """Return the newest checkpoint in a folder, or the folder itself if it is one; raises as `find`."""
    return find(folder)[0]


def read_description(checkpoint: Path) -> dict[str, Any]:
    """Return what a checkpoint of our algorithms belongs to: ``checkpoint.json``, checked against its checksum.

    Raises:
        CheckpointError: It is missing or damaged.
    """
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
