"""Going on from a checkpoint: which one, in which folder, and with what of the results so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from interreplay.errors import CheckpointError, UsageError
from interreplay.runs.run_folder import RunFolder, read_settings


def first_settings(checkpoints: Sequence[Path]) -> dict[str, Any]:
    """The settings of the first checkpoint that has readable ones.

    Raises:
        CheckpointError: None has.
    """
    reasons = []
    for checkpoint in checkpoints:
        try:
            return read_settings(checkpoint)
        except CheckpointError as error:
            reasons.append(str(error))
    raise CheckpointError(f"no usable checkpoint: {'; '.join(reasons)}")


def home_of(checkpoint: Path, local_dir: Path | None) -> Path | None:
    """The run folder to go on in; None where a new one is to be made.

    Args:
        checkpoint: The checkpoint to go on from.
        local_dir: Where results are to go, if that was said; another place than the run's means a new folder there.
    """
    home = checkpoint.parent
    if not (home / "progress.csv").exists() or (local_dir is not None and local_dir.resolve() != home.parent.resolve()):
        return None
    return home


def restore(algo: Any, checkpoints: Sequence[Path], say: Callable[[str], Any], trusted: bool = False) -> Path:
    """Restores the first checkpoint that can be restored.

    Args:
        algo: A freshly built algorithm.
        checkpoints: The best first.
        say: Told in one line which one it is, and why not one before it.
        trusted: Whether loading a checkpoint may run what it names.

    Raises:
        CheckpointError: None can.
    """
    reasons = []
    for checkpoint in checkpoints:
        try:
            read_settings(checkpoint)
            algo.restore_from_path(str(checkpoint.absolute()), trusted=trusted)
        except CheckpointError as error:
            reasons.append(f"{checkpoint.name} is unusable ({error})")
            continue
        say("; ".join([*reasons, f"going on from {checkpoint.name}"]))
        return checkpoint
    raise CheckpointError("no usable checkpoint: " + "; ".join(reasons))


def reopen(home: Path, checkpoint: Path, steps: int, total: int, say: Callable[[str], Any]) -> RunFolder:
    """The run's folder without the results that lie beyond the checkpoint.

    Args:
        home: The run's folder.
        checkpoint: The checkpoint that was restored.
        steps: Its environment steps.
        total: Environment steps of the whole run.
        say: Told which newer checkpoints were renamed.

    Raises:
        UsageError: The run is complete already; nothing was changed.
    """
    if steps >= total:
        raise UsageError(f"the run is complete at {steps:,} steps; a --total_env_steps above that goes on")
    folder = RunFolder(home)
    for path in folder.set_aside_after(checkpoint):
        say(f"what lies beyond {checkpoint.name} is kept as {path.name}")
    folder.rewind(steps)
    return folder
