"""The folder of a run: its results and checkpoints, and rewinding it to a checkpoint."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import re
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interreplay.errors import UsageError
from interreplay.runs.checkpoints import (
    BEST,
    BestReturn,
    best_checkpoints,
    copy_with_links,
    list_checkpoints,
    parse_steps,
    read_best,
)
from interreplay.runs.results.reader import values
from interreplay.runs.state_files import manifest
from interreplay.runs.state_files.disk import free_path, replacement, sync

SETTINGS = "settings.json"
STATUS = "status.json"
"""File with the state, the failures and the duration of a run of a study."""
RESULTS = ("progress.csv", "result.json", "episodes.csv")
"""Files of results, one row per iteration or episode."""
STEPS = "num_env_steps_sampled_lifetime"
"""Name of the env steps in results."""


class RunFolder:
    """One run on disk: ``params.json``, ``progress.csv``, ``result.json``, TensorBoard's events, ``checkpoint_N``.

    The best checkpoint is kept as ``best_checkpoint_N``.
    """

    def __init__(self, path: Path):
        self.path = path

    @classmethod
    def create(cls, parent: Path, name: str) -> RunFolder:
        """Create a folder ``parent/name_<date>-<time>``."""
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{name}_{time.strftime('%Y%m%d-%H%M%S')}")
        number = 1
        while True:
            path = parent / f"{stem}_{number}".removesuffix("_1")
            try:
                path.mkdir(parents=True)
                return cls(path)
            except FileExistsError:
                number += 1
            except OSError as error:
                raise _unwritable(parent, error) from None

    def checkpoints(self) -> list[Path]:
        """Return the checkpoints in descending order of environment steps."""
        return list_checkpoints(self.path, "checkpoint_")

    def resumable(self) -> list[Path]:
        """Return all checkpoints, the best and the kept ones included, in descending order of environment steps."""
        kept = list_checkpoints(self.path, "kept_checkpoint_")
        return sorted([*self.checkpoints(), *best_checkpoints(self.path), *kept], key=parse_steps, reverse=True)

    def save(self, steps: int, write: Callable[[Path], Any], settings: dict[str, Any], keep: int) -> Path:
        """Write a checkpoint under a temporary name, rename it, then remove all but the `keep` newest checkpoints.

        `write` writes the checkpoint into a folder that does not exist yet; `settings` are those for ``--resume``.

        Raises:
            UsageError: The checkpoint cannot be written. Earlier ones are kept.
        """
        target = self._make(f"checkpoint_{steps:08d}", lambda work: _write(work, write, settings))
        for old in self.checkpoints()[keep:]:
            shutil.rmtree(old, ignore_errors=True)
        return target

    def save_best(self, steps: int, write: Callable[[Path], Any], settings: dict[str, Any], found: BestReturn) -> Path:
        """Replace the best checkpoint; as `save`. If there is a checkpoint of the same steps, share its files."""
        before = best_checkpoints(self.path)
        same = self.path / f"checkpoint_{steps:08d}"

        def written(work: Path) -> None:
            if same.exists():
                copy_with_links(same, work)
            else:
                _write(work, write, settings)
            manifest.add(work, BEST, json.dumps(found._asdict() | {"env_steps": steps}) + "\n")

        target = self._make(f"best_checkpoint_{steps:08d}", written)
        for old in before:
            if old != target:
                shutil.rmtree(old, ignore_errors=True)
        return target

    def save_kept(self, steps: int, write: Callable[[Path], Any], settings: dict[str, Any]) -> Path:
        """Write a checkpoint that is never removed, ``kept_checkpoint_N``; arguments and errors as for `save`."""
        return self._make(f"kept_checkpoint_{steps:08d}", lambda work: _write(work, write, settings))

    def best(self) -> BestReturn | None:
        """Return the mean return of the best checkpoint, None if there is no best checkpoint."""
        found = map(read_best, best_checkpoints(self.path))
        return max(filter(None, found), default=None)

    def _make(self, name: str, write: Callable[[Path], Any]) -> Path:
        """Write the folder of a checkpoint under a temporary name, sync the results, and rename it; return its path."""
        target = self.path / name
        if target.exists():  # the same steps of the same run, hence the same state
            return target
        work = self.path / f".saving_{target.name}"
        for stale in self.path.glob(".*saving_*"):  # left by a process that was killed
            shutil.rmtree(stale, ignore_errors=True)
        try:
            write(work)
            for name in RESULTS:  # after a power failure, no checkpoint may be ahead of its results
                if (self.path / name).exists():
                    sync(self.path / name)
            work.rename(target)
            sync(self.path)
        except OSError as error:
            shutil.rmtree(work, ignore_errors=True)
            raise UsageError(
                f"checkpoint {target} could not be written ({error}); the earlier ones are kept"
            ) from error
        return target

    def set_aside_after(self, steps: int) -> list[Path]:
        """Rename the checkpoints with more than ``steps`` environment steps, and return their new paths.

        If there are any, the results so far are copied first, to names that end in the same way.
        """
        later = [path for path in self.resumable() if parse_steps(path) > steps]
        copies = []
        try:
            for name in RESULTS:
                if later and (self.path / name).exists():
                    copies.append(_set_aside_name(self.path / name))
                    shutil.copy2(self.path / name, copies[-1])
                    sync(copies[-1])
        except OSError as error:
            for copy in copies:
                copy.unlink(missing_ok=True)
            raise self._recover_results(error) from error
        return [path.rename(_set_aside_name(path)) for path in later]

    def rewind(self, steps: int, column: str = STEPS) -> None:
        """Drop the rows of results whose `column` is above ``steps``, and incomplete rows."""
        lines = self.path / "result.json"
        try:
            for name, steps_column in (("progress.csv", column), ("episodes.csv", "env_steps")):
                if (self.path / name).exists():
                    _drop_later_rows(self.path / name, steps_column, steps)
            if lines.exists():
                with lines.open() as file, replacement(lines) as new:
                    new.writelines(line for line in file if _parse_steps(line, column) <= steps)
        except OSError as error:
            raise self._recover_results(error) from error

    def _recover_results(self, error: OSError) -> UsageError:
        return UsageError(f"results in {self.path} cannot be rewritten ({error.strerror}); the files are kept")

    def has_result(self, result: dict[str, Any]) -> bool:
        """Return whether ``result.json`` contains a row with the env steps of a result."""
        lines = self.path / "result.json"
        if not lines.exists():
            return False
        with lines.open() as file:
            return _get_steps(result) in map(_parse_steps, file)

    def returns(self, evaluations: bool) -> list[float]:
        """Return the mean returns so far, of evaluations or of training."""
        kind = "evaluation" if evaluations else "training"
        return [value for _, value in values(self.path, kind)]

    def note_error(self, error: BaseException) -> Path:
        """Write the traceback of an error to ``error.txt``, unless the disk is full; return the path of the file."""
        path = self.path / "error.txt"
        with contextlib.suppress(OSError):
            path.write_text("".join(traceback.format_exception(error)))
        return path

    def best_evaluation(self) -> float:
        """Return the highest mean return of an evaluation so far, NaN without evaluations."""
        return max(self.returns(evaluations=True), default=math.nan)


def _set_aside_name(path: Path) -> Path:
    return free_path(path.with_name(f"{path.name}.set_aside"))


def _drop_later_rows(table: Path, column: str, steps: int) -> None:
    """Drop the rows of a CSV file in which `column` is above `steps`, and incomplete rows."""
    with table.open(newline="") as file, replacement(table) as new:
        reader = csv.DictReader(file)
        writer = csv.DictWriter(new, reader.fieldnames or [])
        if reader.fieldnames:  # an empty table receives its header with its first row
            writer.writeheader()
        for row in reader:
            if None not in row.values() and None not in row and _get_steps(row, column) <= steps:
                writer.writerow(row)


def _get_steps(row: Any, column: str = STEPS) -> float:
    """Return the env steps of a result, infinity for damaged rows."""
    try:
        return float(row[column])
    except (KeyError, ValueError, TypeError):
        return math.inf


def _parse_steps(line: str, column: str = STEPS) -> float:
    """Return the env steps of a line of ``result.json``, infinity for damaged lines."""
    try:
        return _get_steps(json.loads(line), column)
    except ValueError:
        return math.inf


def find_checkpoints(path: Path, flag: str = "--resume") -> list[Path]:
    """Return the checkpoints that ``--resume`` can use, in order of preference."""
    if not path.is_dir():
        kind = "is not a folder" if path.exists() else "does not exist"
        raise UsageError(f"{flag} {path} {kind}; give the folder of a run or of one of its checkpoints")
    path = path.resolve()
    if (path / SETTINGS).exists() or parse_steps(path) >= 0:
        return [path]
    found = RunFolder(path).resumable()
    if not found:
        raise UsageError(f"{flag} {path} holds no checkpoint_* folder; give the folder of a run or of a checkpoint")
    return found


def read_settings(checkpoint: Path) -> dict[str, Any]:
    """Return the settings of a checkpoint."""
    return manifest.read_values(checkpoint, SETTINGS)


def ensure_writable(folder: Path, flag: str = "--output_dir") -> None:
    """Create a folder if necessary, and check that it is writable. ``flag`` names it in the error message."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _unwritable(folder, error, flag) from None


def check_name(name: str, source: str) -> None:
    """Check that a name from `source` is the name of a folder and not a path."""
    if not name.strip() or name in (".", "..") or set(name) & {"/", "\\", "\0"}:
        raise UsageError(f"{source} {name!r}: expected the name of a folder without slashes, not '.' or '..'")


def _write(work: Path, write: Callable[[Path], Any], settings: dict[str, Any]) -> None:
    """Write a checkpoint and the settings for ``--resume``."""
    write(work.absolute())
    in_order = dict(sorted(settings.items()))  # not nested ones: the layers of a network keep their order
    manifest.add(work, SETTINGS, json.dumps(in_order, indent=2) + "\n")


def _unwritable(folder: Path, error: OSError, flag: str = "--output_dir") -> UsageError:
    return UsageError(f"{flag} {folder} cannot be written to ({error.strerror}); give a writable folder")
