"""Resume a run: choose the checkpoint and the folder, and drop later results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from interreplay.errors import CheckpointError, UsageError
from interreplay.runs.checkpoints import parse_steps
from interreplay.runs.run_folder import STEPS, RunFolder, read_settings

UNWRITTEN = "unwritten_result"


def read_unwritten(checkpoint: Path | None) -> dict[str, Any] | None:
    """Return the row of results that could not be written before a checkpoint, from its settings."""
    return read_settings(checkpoint).get(UNWRITTEN) if checkpoint else None


def as_plain(value: Any, text: Callable[[Any], str] = str) -> Any:
    """Return nested results as values of JSON: numpy's numbers as Python's, other objects as their `text`."""
    if isinstance(value, Mapping):
        return {str(name): as_plain(part, text) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(part, text) for part in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return text(value)


def first_settings(checkpoints: Sequence[Path]) -> dict[str, Any]:
    """Return the settings of the first checkpoint with readable settings."""
    reasons = []
    for checkpoint in checkpoints:
        try:
            settings = read_settings(checkpoint)
            settings.pop(UNWRITTEN, None)
            return settings
        except CheckpointError as error:
            reasons.append(str(error))
    raise CheckpointError(f"no usable checkpoint: {'; '.join(reasons)}")


def find_run_folder(checkpoint: Path, output_dir: Path | None) -> Path | None:
    """Return the run folder in which a run continues, None if it needs a new one because of its `output_dir`."""
    home = checkpoint.parent
    if output_dir is not None and output_dir.resolve() != home.parent.resolve():
        return None
    return home if (home / "params.json").exists() else None


def restore(algo: Any, checkpoints: Sequence[Path], notify: Callable[[str], Any]) -> Path:
    """Restore the first usable checkpoint, and return it; notify which one, and why preferred ones are unusable."""
    reasons = []
    for checkpoint in checkpoints:
        try:
            read_settings(checkpoint)
            algo.restore_from_path(str(checkpoint.absolute()))
        except CheckpointError as error:
            reasons.append(f"{checkpoint.name} is unusable ({error})")
            continue
        notify("; ".join([*reasons, f"resuming from {checkpoint.name}"]))
        return checkpoint
    raise CheckpointError("no usable checkpoint: " + "; ".join(reasons))


def record_changed_rates(
    settings: SimpleNamespace, checkpoint: Path, steps: int, report: Callable[[str], Any]
) -> dict[str, Any]:
    """Return ``rate_changes``, a setting that records learning rates changed at `steps`; {} if there are none."""
    saved = read_settings(checkpoint)
    changes = {}
    for name, before in saved.items():
        now = getattr(settings, name, None)
        if name.endswith("lr") and now != before:
            changes[name] = [before, now]
            report(f"{name} {before} -> {now} from step {steps:,} on")
    if not changes:
        return {}
    return {"rate_changes": [*saved.get("rate_changes", []), {"env_steps": steps, **changes}]}


def reopen(
    home: Path,
    checkpoint: Path,
    steps: int,
    settings: SimpleNamespace,
    notify: Callable[[str], Any],
    evaluation_failed: bool = False,
) -> RunFolder:
    """Return the run's folder after dropping results beyond a checkpoint, and renaming newer checkpoints.

    A complete run is accepted if its last row of results is missing, because of a full disk or because the last
    evaluation failed. After ``--recover``, the run continues at more `steps` than those of the checkpoint.

    Raises:
        UsageError: The run is complete, or ``--recover`` leaves no step for updates. Nothing is changed.
    """
    folder = RunFolder(home)
    restored = parse_steps(checkpoint)
    if restored < 0:  # a checkpoint under another name, such as one that was set aside
        restored = steps
    if restored < steps >= settings.total_env_steps:
        raise UsageError(
            f"--recover adds all steps up to the end of the run at {steps:,}, which leaves none to learn from them; "
            f"leave it out to repeat the steps after {checkpoint.name}, or give a larger --total_env_steps"
        )
    missing = {STEPS: steps} if evaluation_failed else read_unwritten(checkpoint)
    if steps >= settings.total_env_steps and (missing is None or folder.has_result(missing)):
        unit = "steps" if settings.updates is None else "updates"
        flag = "--total_env_steps" if settings.updates is None else "--updates"
        raise UsageError(f"the run is complete at {steps:,} {unit}; a larger {flag} continues it")
    renamed = folder.set_aside_after(restored)
    for path in renamed:
        notify(f"a checkpoint newer than {checkpoint.name} is kept as {path.name}")
    if renamed:
        notify("the results so far are kept in copies whose names end in .set_aside")
    folder.rewind(steps)
    return folder
