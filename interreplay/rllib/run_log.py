"""A run's results on disk through Tune's loggers, without Tune's controller."""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ray.tune.logger import CSVLoggerCallback, JsonLoggerCallback, TBXLoggerCallback
from ray.tune.utils import flatten_dict
from tensorboardX import SummaryWriter


@dataclass(eq=False)
class _Run:
    """The attributes of a Tune trial that the loggers read."""

    local_path: str
    config: dict[str, Any]
    checkpoint: None = None
    evaluated_params: dict[str, Any] = field(default_factory=dict)

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
    """

    def __init__(self, folder: Path, config: dict[str, Any], steps: int = 0):
        self._run = _Run(str(folder), config)
        self._loggers = [_Table(), JsonLoggerCallback(), _Events(steps)]
        for logger in self._loggers:
            logger.log_trial_start(self._run)

    def write(self, result: dict[str, Any], steps: int) -> None:
        """Adds one result.

        Args:
            result: What ``algo.train()`` returned.
            steps: Environment steps so far, TensorBoard's horizontal axis.
        """
        row = {name: value for name, value in result.items() if name != "config"} | {"timesteps_total": steps}
        for logger in self._loggers:
            logger.log_trial_result(result["training_iteration"], self._run, row)

    def close(self) -> None:
        """Closes the files."""
        for logger in self._loggers:
            logger.log_trial_end(self._run)
