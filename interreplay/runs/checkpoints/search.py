"""Which checkpoint is meant by a folder: the newest of those in it."""

from __future__ import annotations

import re
from pathlib import Path

from interreplay.errors import UsageError

METADATA = "rllib_checkpoint.json"
_EXPECTED = "give the folder of a checkpoint, or of a run"
_NUMBERED = re.compile(r"checkpoint_\d+")


def find(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, the newest first, or the folder itself where it is one.

    Raises:
        UsageError: When there is none.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} {'is no folder' if folder.exists() else 'does not exist'}; {_EXPECTED}")
    if (folder / METADATA).exists():
        return [folder.absolute()]
    found = [path for path in folder.glob(f"**/checkpoint_*/{METADATA}") if _NUMBERED.fullmatch(path.parent.name)]
    if not found:
        raise UsageError(f"{folder} holds no checkpoint; {_EXPECTED}")
    ordered = sorted(found, key=lambda path: (path.stat().st_mtime, path), reverse=True)
    return [path.parent.absolute() for path in ordered]


def newest_of(folder: Path) -> Path:
    """Return the newest checkpoint in a folder, or the folder itself where it is one; raises as `find`."""
    return find(folder)[0]
