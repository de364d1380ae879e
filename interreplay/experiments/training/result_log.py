"""A run's results on disk through Tune's loggers, without Tune's controller."""

from __future__ import annotations

import contextlib
import csv
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from ray.tune.logger import CSVLoggerCallback, JsonLoggerCallback, LoggerCallback
from ray.tune.utils import flatten_dict

from interreplay.experiments.training.event_files import Events


@dataclass(eq=False)
class _Run:
    """The attributes of a Tune trial that the loggers read."""

    local_path: str
    config: dict[str, Any]
    checkpoint: None = None
    experiment_tag: str = ""
    evaluated_params: dict[str, Any] = field(default_factory=dict)

    @property
    def trial_id(self) -> str:
        """The folder's name, by which a resumed run is known."""
        return Path(self.local_path).name

    @property
    def experiment_dir_name(self) -> str:
        """What runs are grouped by."""
        return f"{self.config.get('trainer')} {self.config.get('env')} {self.config.get('buffer')}"

    def __str__(self) -> str:
        return self.trial_id

    def init_local_path(self) -> None:
        Path(self.local_path).mkdir(parents=True, exist_ok=True)


class _Table(CSVLoggerCallback):
    """``progress.csv`` with all columns: Tune's logger drops those that the first row did not have.

    The file is read once, when a run is resumed, and again where columns are new: what an iteration costs does not grow
    with the run.
    """

    def __init__(self) -> None:
        super().__init__()
        self._header: list[str] = []
        self.size = 0

    def log_trial_start(self, trial: Any) -> None:
        self._header = self._read(Path(trial.local_path, "progress.csv"))[0]

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        row = flatten_dict(result, delimiter="/")
        known = set(self._header)
        new = [name for name in row if name not in known]
        if self._header and new:
            self.log_trial_end(trial)
            path = Path(trial.local_path, "progress.csv")
            self._rewrite(path, [*self._header, *new], self._read(path)[1])
            self.mark(trial)
        self._header += new
        super().log_trial_result(iteration, trial, dict.fromkeys(self._header, "") | row)

    def mark(self, trial: Any) -> None:
        """Note the size to which `undo` goes back."""
        self.size = _size(Path(trial.local_path, "progress.csv"))

    def undo(self, trial: Any) -> None:
        """Let go of the file, and remove what was written since `mark`."""
        _let_go(self._trial_files.get(trial))
        _cut(Path(trial.local_path, "progress.csv"), self.size)

    @staticmethod
    def _read(path: Path) -> tuple[list[str], list[dict[str, Any]]]:
        if not path.exists():
            return [], []
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            return list(reader.fieldnames or ()), list(reader)

    @staticmethod
    def _rewrite(path: Path, header: list[str], rows: list[dict[str, Any]]) -> None:
        work = path.with_name(".progress.csv")
        try:
            with work.open("w", newline="") as file:
                writer = csv.DictWriter(file, header, restval="")
                writer.writeheader()
                writer.writerows(rows)
            work.replace(path)
        except OSError:
            work.unlink(missing_ok=True)
            raise


class _Lines(JsonLoggerCallback):
    """``result.json`` and ``params.json``."""

    size = 0

    def mark(self, trial: Any) -> None:
        """Note the size to which `undo` goes back."""
        self.size = _size(Path(trial.local_path, "result.json"))

    def undo(self, trial: Any) -> None:
        """Let go of the file, and remove what was written since `mark`."""
        _let_go(self._trial_files.get(trial))
        _cut(Path(trial.local_path, "result.json"), self.size)


class RunLog:
    """Writes ``params.json``, ``progress.csv``, ``result.json`` and TensorBoard's events.

    Args:
        folder: Where to; what is there already is continued.
        config: The resolved configuration, for ``params.json``.
        steps: Environment steps that are behind already.
        trackers: Further loggers of Tune's, such as those for Weights & Biases and MLflow. One that fails is left out
            from there on; the run goes on.
        say: Told in one line when that happens.
    """

    def __init__(
        self,
        folder: Path,
        config: dict[str, Any],
        steps: int = 0,
        trackers: Sequence[LoggerCallback] = (),
        say: Callable[[str], object] = str,
    ):
        self._run, self._say = _Run(str(folder.absolute()), config), say
        self._table, self._lines, self._events = _Table(), _Lines(), Events(steps)
        self._loggers: list[LoggerCallback] = [self._table, self._lines, self._events]
        for logger in self._loggers:
            logger.log_trial_start(self._run)
        (folder / "params.pkl").unlink(missing_ok=True)  # Tune's logger writes it; params.json has the same
        self._trackers = list(trackers)
        self._tell(lambda tracker: tracker.log_trial_start(self._run))

    def write(self, result: dict[str, Any], steps: int) -> None:
        """Add one result, to every file or to none.

        Args:
            result: What ``algo.train()`` returned.
            steps: Environment steps so far, TensorBoard's horizontal axis.

        Raises:
            OSError: A file could not be written; nothing more can be added.
        """
        row = {name: value for name, value in result.items() if name != "config"} | {"timesteps_total": steps}
        self._table.mark(self._run)
        self._lines.mark(self._run)
        try:
            for logger in self._loggers:
                logger.log_trial_result(result["training_iteration"], self._run, row)
        except OSError:
            self._table.undo(self._run)
            self._lines.undo(self._run)
            _let_go(self._events.file(self._run))
            raise
        self._tell(lambda tracker: tracker.log_trial_result(result["training_iteration"], self._run, dict(row)))

    def video(self, name: str, frames: list[np.ndarray], steps: int) -> None:
        """Add a video to TensorBoard's images.

        Args:
            name: Its tag.
            frames: Pictures ``(height, width, 3)`` uint8.
            steps: Environment steps so far.
        """
        self._events.video(self._run, name, frames, steps)

    def close(self) -> None:
        """Close the files."""
        for logger in self._loggers:
            with contextlib.suppress(OSError):  # of a disk that is full, where `write` has raised before
                logger.log_trial_end(self._run)
        self._tell(lambda tracker: tracker.log_trial_end(self._run))
        self._tell(lambda tracker: tracker.on_experiment_end([]))

    def _tell(self, act: Callable[[LoggerCallback], object]) -> None:
        for tracker in [*self._trackers]:
            try:
                act(tracker)
            except Exception as error:  # of a service elsewhere
                self._trackers.remove(tracker)
                self._say(
                    f"{type(tracker).__name__} stopped, the run goes on without it: {' '.join(str(error).split())}"
                )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _cut(path: Path, size: int) -> None:
    """Bring a file back to the size that it had, which takes no room."""
    if _size(path) > size:
        os.truncate(path, size)


def _let_go(file: IO[Any] | None) -> None:
    """Close a file without what it holds back, which would be written, or fail again."""
    if file is not None and not file.closed:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), file.fileno())
        file.close()
