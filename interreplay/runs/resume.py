"""Going on from a checkpoint: which one, in which folder, and with what of the results so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from interreplay.errors import CheckpointError, UsageError
from interreplay.runs.run_folder import SETTINGS, RunFolder, read_settings

UNWRITTEN = "unwritten_result"


def with_unwritten(settings: dict[str, Any], result: dict[str, Any] | None) -> dict[str, Any]:
    """Return a run's settings for a checkpoint, with a row of results that could not be written, if there is one."""
    return settings | ({UNWRITTEN: plain(result)} if result else {})


def unwritten(checkpoint: Path | None) -> dict[str, Any] | None:
    """Return the row of results that `with_unwritten` left in a checkpoint."""
    return read_settings(checkpoint).get(UNWRITTEN) if checkpoint else None


def plain(value: Any) -> Any:
    """Return a tree of results as JSON has it: numpy's numbers as Python's, what is none of these as text."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.generic):
        return value.item()
    return value if isinstance(value, str | int | float | bool | type(None)) else str(value)


def first_settings(checkpoints: Sequence[Path]) -> dict[str, Any]:
    """Return the settings of the first checkpoint that has readable ones.

    Raises:
        CheckpointError: None has.
    """
    reasons = []
    for checkpoint in checkpoints:
        try:
            return {name: value for name, value in read_settings(checkpoint).items() if name != UNWRITTEN}
        except CheckpointError as error:
            reasons.append(str(error))
    raise CheckpointError(f"no usable checkpoint: {'; '.join(reasons)}")


def run_folder_of(checkpoint: Path, output_dir: Path | None) -> Path | None:
    """Return the run folder to go on in; None where a new one is to be made.

    Args:
        checkpoint: The checkpoint to go on from.
        output_dir: Where results are to go, if that was said; another place than the run's means a new folder there.
    """
    home = checkpoint.parent
    # The first of them is there from a run's first moment on.
    is_run = any((home / name).exists() for name in ("params.json", "progress.csv", SETTINGS))
    if not is_run or (output_dir is not None and output_dir.resolve() != home.parent.resolve()):
        return None
    return home


def restore(algo: Any, checkpoints: Sequence[Path], say: Callable[[str], Any]) -> Path:
    """Restore the first checkpoint that can be restored.

    Args:
        algo: A freshly built algorithm.
        checkpoints: The best first.
        say: Told in one line which one it is, and why not one before it.

    Raises:
        CheckpointError: None can.
    """
    reasons = []
    for checkpoint in checkpoints:
        try:
            read_settings(checkpoint)
            algo.restore_from_path(str(checkpoint.absolute()))
        except CheckpointError as error:
            reasons.append(f"{checkpoint.name} is unusable ({error})")
            continue
        say("; ".join([*reasons, f"going on from {checkpoint.name}"]))
        return checkpoint
    raise CheckpointError("no usable checkpoint: " + "; ".join(reasons))


def changed_rates(
    settings: SimpleNamespace, checkpoint: Path, steps: int, report: Callable[[str], Any]
) -> dict[str, Any]:
    """Return ``rate_changes``, a setting that records changed learning rates; {} if there are none.

    Args:
        settings: Settings of the resumed run.
        checkpoint: The restored checkpoint.
        steps: Its environment steps.
        report: Receives a line about the changes.
    """
    saved = read_settings(checkpoint)
    names = [name for name in saved if name.endswith("lr") and getattr(settings, name, None) != saved[name]]
    if not names:
        return {}
    changes = {name: [saved[name], getattr(settings, name)] for name in names}
    listed = ", ".join(f"{name} {old} -> {new}" for name, (old, new) in changes.items())
    report(f"{listed} from step {steps:,} on")
    return {"rate_changes": [*saved.get("rate_changes", []), {"env_steps": steps, **changes}]}


def reopen(home: Path, checkpoint: Path, steps: int, total: int, say: Callable[[str], Any]) -> RunFolder:
    """Return the run's folder without the results that lie beyond the checkpoint.

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
