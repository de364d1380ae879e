"""What Ray Tune reports while it carries out a study, and when it ends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ray import tune

from interreplay.experiments.studies.trial_folder import TrialFolder

Tell = Callable[[str, str, dict[str, Any]], Any]
PATIENCE = 60.0
LOST_PAUSE = 10.0
"""Seconds before a run whose process was lost is tried again: Ray takes some to notice that a node is gone, and would
place it there once more."""


class Progress(tune.Callback):
    """Passes what happens to trials on to whoever reports it, and knows which of them run."""

    def __init__(self, tell: Tell):
        self._tell = tell
        self.running: set[str] = set()
        self._failures: dict[str, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return what Tune may pickle: a terminal cannot be, and studies are resumed from their own folders."""
        return {name: value for name, value in vars(self).items() if name != "_tell"}

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.running.add(str(trial))
        self._failures[str(trial)] = len(_folder(trial).status()["failures"])
        self._tell("start", str(trial), {})

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: Any, **info: Any) -> None:
        self._tell("result", str(trial), result)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._leave("end", trial, trial.last_result or {})

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        lost, reason = self._why(trial)
        self._leave("retry", trial, {"reason": reason})
        time.sleep(LOST_PAUSE if lost else 0)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._leave("fail", trial, {"reason": self._why(trial)[1]})

    def _leave(self, event: str, trial: Any, figures: dict[str, Any]) -> None:
        self.running.discard(str(trial))
        self._tell(event, str(trial), figures)

    def _why(self, trial: Any) -> tuple[bool, str]:
        """Return whether a trial's process was lost before it could say why it failed, which is noted then, and why."""
        failures = _folder(trial).status()["failures"]
        lost = len(failures) <= self._failures.get(str(trial), 0)
        if lost:
            failures = _folder(trial).note_failure(f"its process ended: {_cause(trial)}")["failures"]
        self._failures[str(trial)] = len(failures)
        return lost, failures[-1]


def _folder(trial: Any) -> TrialFolder:
    return TrialFolder(Path(trial.config["job"]["folder"]))


def _cause(trial: Any) -> str:
    """Return what Ray says of the end of a trial's process, without the guesses that follow it."""
    lines = Path(trial.error_file).read_text().split("\n") if trial.error_file else []
    given = [line.strip() for line in lines if line.strip()]
    line = next((line for line in reversed(given) if "exit" in line.lower()), given[-1] if given else "")
    return line.partition(" Some common causes include")[0]


class StopWhenSaved(tune.Stopper):
    """Stops Tune once every trial that ran at the request has saved, or the time for it is over."""

    def __init__(self, progress: Progress):
        self._progress, self._awaited, self._deadline = progress, set[str](), math.inf

    def request(self) -> None:
        """Request the end."""
        if self._deadline == math.inf:
            self._awaited, self._deadline = set(self._progress.running), time.monotonic() + PATIENCE

    @property
    def overdue(self) -> bool:
        """Whether even Tune had its time."""
        return time.monotonic() > self._deadline + PATIENCE

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        waited = not self._awaited & self._progress.running or time.monotonic() > self._deadline
        return self._deadline < math.inf and waited
