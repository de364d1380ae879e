"""Callbacks of Ray Tune during a study: events of its runs, and its end after a signal."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from ray import tune

from interreplay.experiments.studies.study import OnEvent
from interreplay.experiments.studies.trial_folder import FINISHED, STOPPED, TrialFolder

PATIENCE = 60.0
"""Seconds in which running trials must have saved after a request to stop."""


class Progress(tune.Callback):
    """Passes the events of trials to a reporter, and keeps the set of running trials."""

    def __init__(self, on_event: OnEvent):
        self._on_event = on_event
        self.running: set[str] = set()
        self._failures: dict[str, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave the reporter out, which holds a stream: studies resume from the folders of their runs."""
        return vars(self) | {"_on_event": None}

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.running.add(str(trial))
        self._failures[str(trial)] = len(_folder(trial).status()["failures"])
        self._on_event("start", str(trial), {})

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: Any, **info: Any) -> None:
        self._on_event("result", str(trial), result)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        figures = dict(trial.last_result or {})
        total = trial.config["job"]["settings"]["total_env_steps"]
        state = FINISHED if figures.get("env_steps", 0) >= total else STOPPED  # also by a scheduler at its last step
        figures["state"] = figures.get("state") or state  # a run that ends by itself reports its state
        self._leave("end", trial, figures)

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._leave("retry", trial, {"reason": self._reason(trial)})

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._leave("fail", trial, {"reason": self._reason(trial)})

    def _leave(self, event: str, trial: Any, figures: dict[str, Any]) -> None:
        self.running.discard(str(trial))
        self._on_event(event, str(trial), figures)

    def _reason(self, trial: Any) -> str:
        """Return why a trial failed. If its process ended before it could record the failure, record it here."""
        folder = _folder(trial)
        failures = folder.status()["failures"]
        if len(failures) <= self._failures.get(str(trial), 0):
            cause = ""
            if trial.error_file:
                for line in Path(trial.error_file).read_text().split("\n"):
                    if "exit" in line.lower() or "low on memory" in line:
                        cause = line.partition(" Some common causes include")[0]  # Ray appends guesses
            failures = folder.note_failure(f"its process ended: {cause}")["failures"]
        self._failures[str(trial)] = len(failures)
        return failures[-1]


def _folder(trial: Any) -> TrialFolder:
    return TrialFolder(Path(trial.config["job"]["folder"]))


class StopWhenSaved(tune.Stopper):
    """Stops Tune when each trial that was running at the request has saved, at the latest after `PATIENCE`."""

    def __init__(self, progress: Progress):
        self._progress = progress
        self._awaited: set[str] = set()
        self._deadline = math.inf

    def request(self) -> None:
        """Request the end."""
        if self._deadline == math.inf:
            self._awaited = set(self._progress.running)
            self._deadline = time.monotonic() + PATIENCE

    @property
    def overdue(self) -> bool:
        """Whether Tune itself has had enough time to end."""
        return time.monotonic() > self._deadline + PATIENCE

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        if self._deadline == math.inf:
            return False
        saved = not self._awaited & self._progress.running
        return saved or time.monotonic() > self._deadline
