"""Which checkpoint is meant by a folder: the newest or the best of those in it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from interreplay.errors import UsageError

METADATA = "rllib_checkpoint.json"
BEST = "best.json"
"""In the best checkpoint of a run: its ``return``, ``of`` which episodes it is, and its ``env_steps``."""
_EXPECTED = "give the folder of a checkpoint, or of a run"
_NUMBERED, _BEST_NUMBERED = re.compile(r"checkpoint_\d+"), re.compile(r"best_checkpoint_\d+")


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


def best_of(folder: Path) -> Path:
    """Return the best checkpoint of a run, or of several runs in a folder.

    Raises:
        UsageError: There is none.
    """
    if not folder.is_dir() or (folder / METADATA).exists():
        raise UsageError(f"{folder} is not the folder of a run; expected one, whose best checkpoint is meant")
    found = [path.parent.absolute() for path in folder.glob(f"**/best_checkpoint_*/{BEST}") if _is_best(path.parent)]
    if not found:
        raise UsageError(
            f"{folder} holds no best checkpoint; runs with --keep_best have one from their first evaluation on"
        )
    return max(found, key=lambda path: (best_return(path), path))


def best_return(checkpoint: Path) -> float:
    """Return the return for which a checkpoint was kept as the best; -inf where that cannot be read."""
    try:
        return float(json.loads((checkpoint / BEST).read_text())["return"])
    except (OSError, ValueError, KeyError, TypeError):
        return float("-inf")


def _is_best(checkpoint: Path) -> bool:
    return bool(_BEST_NUMBERED.fullmatch(checkpoint.name))
