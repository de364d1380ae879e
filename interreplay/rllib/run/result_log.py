"""A run's results on disk through Tune's loggers, without Tune's controller."""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from ray.tune.logger import CSVLoggerCallback, JsonLoggerCallback, LoggerCallback, TBXLoggerCallback
from ray.tune.utils import flatten_dict
from tensorboardX import SummaryWriter
from tensorboardX.proto.summary_pb2 import Summary

from interreplay.rllib.evaluation.video import gif


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
    """``progress.csv`` with all columns: Tune's logger drops those that the first row did not have."""

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        path = Path(trial.local_path, "progress.csv")
        row = flatten_dict(result, delimiter="/")
        header, rows = self._read(path)
        new = [name for name in row if name not in header]
        if header and new:
            self.log_trial_end(trial)
            self._rewrite(path, [*header, *new], rows)
        super().log_trial_result(iteration, trial, dict.fromkeys([*header, *new], "") | row)

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
        with work.open("w", newline="") as file:
            writer = csv.DictWriter(file, header, restval="")
            writer.writeheader()
            writer.writerows(rows)
        work.replace(path)


class _Events(TBXLoggerCallback):
    """TensorBoard's events; those past the step that a resumed run starts from are hidden."""

    def __init__(self, steps: int):
        super().__init__()
        if steps:
            self._summary_writer_cls = functools.partial(SummaryWriter, purge_step=steps + 1)


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
        self._events = _Events(steps)
        self._loggers = [_Table(), JsonLoggerCallback(), self._events]
        for logger in self._loggers:
            logger.log_trial_start(self._run)
        self._trackers = list(trackers)
        self._tell(lambda tracker: tracker.log_trial_start(self._run))

    def write(self, result: dict[str, Any], steps: int) -> None:
        """Adds one result.

        Args:
            result: What ``algo.train()`` returned.
            steps: Environment steps so far, TensorBoard's horizontal axis.
        """
        row = {name: value for name, value in result.items() if name != "config"} | {"timesteps_total": steps}
        for logger in self._loggers:
            logger.log_trial_result(result["training_iteration"], self._run, row)
        self._tell(lambda tracker: tracker.log_trial_result(result["training_iteration"], self._run, dict(row)))

    def film(self, name: str, frames: list[np.ndarray], steps: int) -> None:
        """Adds a film to TensorBoard's images.

        Args:
            name: Its tag.
            frames: Pictures ``(height, width, 3)`` uint8.
            steps: Environment steps so far.
        """
        height, width, _ = frames[0].shape
        picture = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=gif(frames))
        writer = self._events._trial_writer[self._run]
        writer._get_file_writer().add_summary(Summary(value=[Summary.Value(tag=name, image=picture)]), steps)

    def close(self) -> None:
        """Closes the files."""
        for logger in self._loggers:
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
