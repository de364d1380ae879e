"""The folder of a run: its results, its checkpoints, and going back to one of them."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from interreplay.errors import CheckpointError, UsageError
from interreplay.runs.checkpoints import best as best_checkpoint
from interreplay.runs.checkpoints.best import Best
from interreplay.runs.results.rewinding import rewind_lines, rewind_table
from interreplay.runs.state_files import manifest

TRAINING_RETURN = "env_runners/episode_return_mean"
EVALUATION_RETURN = f"evaluation/{TRAINING_RETURN}"
SETTINGS = "settings.json"
_CHECKPOINT = re.compile(r"checkpoint_(\d+)")


class RunFolder:
    """One run on disk: ``params.json``, ``progress.csv``, ``result.json``, TensorBoard's events, ``checkpoint_N``.

    The best of its checkpoints is kept as ``best_checkpoint_N``, however many others come.
    """

    def __init__(self, path: Path):
        self.path = path

    @classmethod
    def create(cls, parent: Path, name: str) -> RunFolder:
        """Return a new folder ``parent/name_<date>-<time>``.

        Raises:
            UsageError: It cannot be created.
        """
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{name}_{time.strftime('%Y%m%d-%H%M%S')}")
        for suffix in ["", *(f"_{i}" for i in range(2, 100))]:
            try:
                (parent / (stem + suffix)).mkdir(parents=True)
                return cls(parent / (stem + suffix))
            except FileExistsError:
                continue
            except OSError as error:
                raise _unwritable(parent, error) from None
        raise UsageError(f"{parent / stem} and 98 like it exist already; choose another --output_dir")

    def checkpoints(self) -> list[Path]:
        """Return the checkpoints, the newest (by environment steps) first."""
        found = {int(m[1]): p for p in self.path.glob("checkpoint_*") if (m := _CHECKPOINT.fullmatch(p.name))}
        return [found[steps] for steps in sorted(found, reverse=True)]

    def save(self, steps: int, write: Callable[[Path], Any], settings: dict[str, Any], keep: int) -> Path:
        """Write a checkpoint beside the others under another name, rename it, then remove the oldest.

        Args:
            steps: Environment steps so far; they name the folder.
            write: Called with the folder to write into, which does not exist yet.
            settings: What ``--resume`` starts from.
            keep: How many checkpoints stay.

        Raises:
            UsageError: It cannot be written; the earlier ones are untouched.
        """
        target = self.path / f"checkpoint_{steps:08d}"
        if target.exists():  # of the same steps of the same run, so of the same state
            return target

        def written(work: Path) -> None:
            write(work.absolute())
            _add_settings(work, settings)

        self._make(target, written)
        for old in self.checkpoints()[keep:]:
            shutil.rmtree(old, ignore_errors=True)
        return target

    def save_best(self, steps: int, write: Callable[[Path], Any], settings: dict[str, Any], found: Best) -> Path:
        """Write the best checkpoint in the place of the best one before; that of now is shared where it is there.

        Args:
            steps: Environment steps so far; they name the folder.
            write: As of `save`.
            settings: As of `save`.
            found: Why it is the best.

        Raises:
            UsageError: It cannot be written; the earlier ones are untouched.
        """
        before, target = best_checkpoint.inside(self.path), self.path / best_checkpoint.NAME.format(steps)
        same = self.path / f"checkpoint_{steps:08d}"

        def written(work: Path) -> None:
            if same.exists():
                best_checkpoint.share(same, work)
            else:
                write(work.absolute())
                _add_settings(work, settings)
            best_checkpoint.mark(work, found, steps)

        if target not in before:
            self._make(target, written)
        for old in before:
            if old != target:
                shutil.rmtree(old, ignore_errors=True)
        return target

    def best(self) -> Best | None:
        """Return why the best checkpoint is the best, None where there is none."""
        found = map(best_checkpoint.read, best_checkpoint.inside(self.path))
        return max((one for one in found if one is not None), default=None)

    def _make(self, target: Path, write: Callable[[Path], Any]) -> None:
        """Write a checkpoint's folder under another name, and rename it.

        Raises:
            UsageError: It cannot be written.
        """
        work = self.path / f".saving_{target.name}"
        for stale in self.path.glob(".*saving_*"):  # of a process that was killed
            shutil.rmtree(stale, ignore_errors=True)
        try:
            write(work)
            work.rename(target)
            manifest.sync(self.path)
        except OSError as error:
            shutil.rmtree(work, ignore_errors=True)
            raise UsageError(
                f"checkpoint {target} could not be written ({error}); the earlier ones are kept"
            ) from error

    def set_aside_after(self, checkpoint: Path) -> list[Path]:
        """Rename the checkpoints newer than the one that the run is resumed from; return their new names."""
        newer = [
            path
            for path in (*self.checkpoints(), *best_checkpoint.inside(self.path))
            if steps_of(path) > steps_of(checkpoint)
        ]
        return [path.rename(_free_name(path.with_name(path.name + ".set_aside"))) for path in newer]

    def rewind(self, steps: int) -> None:
        """Drop the rows of ``progress.csv`` and ``result.json`` that are past ``steps``, and half-written ones."""
        rewind_table(self.path / "progress.csv", steps)
        rewind_lines(self.path / "result.json", steps)

    def returns(self, evaluations: bool) -> Iterator[float]:
        """Yield the mean returns of evaluations, or else of training, in ``progress.csv``."""
        column = EVALUATION_RETURN if evaluations else TRAINING_RETURN
        table = self.path / "progress.csv"
        if not table.exists():
            return
        with table.open(newline="") as file:
            for row in csv.DictReader(file):
                value = float(row.get(column) or "nan")
                if not math.isnan(value):
                    yield value


def steps_of(checkpoint: Path) -> int:
    """Return the environment steps in the name of a checkpoint's folder; -1 where it has another name."""
    match = _CHECKPOINT.fullmatch(checkpoint.name.removeprefix("best_"))
    return int(match[1]) if match else -1


def find_checkpoints(path: Path) -> list[Path]:
    """Return the checkpoints that ``--resume`` may start from, the best first.

    Args:
        path: A run folder or a checkpoint's folder.

    Raises:
        UsageError: There is none.
    """
    if not path.is_dir():
        kind = "is not a folder" if path.exists() else "does not exist"
        raise UsageError(f"--resume {path} {kind}; give the folder of a run or of one of its checkpoints")
    path = path.resolve()
    if (path / SETTINGS).exists() or _CHECKPOINT.fullmatch(path.name):
        return [path]
    found = RunFolder(path).checkpoints()
    if not found:
        raise UsageError(f"--resume {path} holds no checkpoint_* folder; give the folder of a run or of a checkpoint")
    return found


def read_settings(checkpoint: Path) -> dict[str, Any]:
    """Return the settings that a checkpoint was made with.

    Raises:
        CheckpointError: They are missing or damaged.
    """
    try:
        text = (checkpoint / SETTINGS).read_text()
        manifest.check_one(checkpoint, SETTINGS)
        settings = json.loads(text)
    except OSError as error:
        raise CheckpointError(f"{checkpoint / SETTINGS} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise CheckpointError(f"{checkpoint / SETTINGS} is damaged: {error}") from None
    if not isinstance(settings, dict):
        raise CheckpointError(f"{checkpoint / SETTINGS} is damaged: expected settings by name")
    return settings


def ensure_writable(folder: Path, flag: str = "--output_dir") -> None:
    """Make a folder and try to write there; ``flag`` is what named it.

    Raises:
        UsageError: That is not possible.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _unwritable(folder, error, flag) from None


def check_name(name: str, said_by: str) -> None:
    """Refuse the name of a folder that would lie elsewhere than where it is made.

    Args:
        name: The name.
        said_by: What said it, for the error message.

    Raises:
        UsageError: It is none, or leads to another folder.
    """
    if not name.strip() or name in (".", "..") or set(name) & {"/", "\\", "\0"}:
        raise UsageError(f"{said_by} {name!r}: expected the name of a folder, without / and other than ..")


def _add_settings(checkpoint: Path, settings: dict[str, Any]) -> None:
    manifest.add(checkpoint, SETTINGS, json.dumps(settings, indent=2, sort_keys=True) + "\n")


def _unwritable(folder: Path, error: OSError, flag: str = "--output_dir") -> UsageError:
    return UsageError(f"{flag} {folder} cannot be written to ({error.strerror}); give a folder that can")


def _free_name(path: Path) -> Path:
    return next(p for p in (path, *(path.with_name(f"{path.name}_{i}") for i in range(2, 10_000))) if not p.exists())
