"""Callbacks of `rllib train` in Ray Tune: a table of progress, and saving on signals."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from ray import tune

from interreplay.experiments.process.progress import shown
from interreplay.runs.results.reader import mean_return

SECONDS_BETWEEN_LINES = 5.0


class ProgressTable(tune.Callback):
    """Prints a line for each trial's newest result, every few seconds."""

    def __init__(self, report: Callable[[str], object], seconds: float = SECONDS_BETWEEN_LINES):
        self._report = report
        self._seconds = seconds
        self._last: dict[str, float] = {}

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        now = time.monotonic()
        before = self._last.get(trial.trial_id)
        if before is not None and now - before < self._seconds and not result.get("done"):
            return
        if not self._last:
            self._report(f"{'trial':<40} {'iteration':>9} {'env steps':>12} {'return':>10} {'seconds':>8}")
        self._last[trial.trial_id] = now
        reached = shown(mean_return(result))
        steps = int(result.get("num_env_steps_sampled_lifetime", 0))
        seconds = f"{result.get('time_total_s', 0):,.0f}"
        self._report(f"{trial!s:<40} {result.get('training_iteration', 0):>9} {steps:>12,} {reached:>10} {seconds:>8}")


class SaveOnSignal(tune.Callback):
    """Saves every running trial after its current iteration, then continues or ends Tune's run resumably.

    Tune's own signal handler ends without saving; it is called here once everything is saved.
    """

    def __init__(self) -> None:
        self.stopping = False
        self._asked: set[str] | None = None
        self._saved: set[str] = set()
        self._end: Any = None

    def save(self) -> None:
        """Save all running trials soon; safe in a signal handler."""
        self._asked = set()
        self._saved = set()

    def stop(self) -> None:
        """Save all running trials soon and end; safe in a signal handler."""
        self.stopping = True
        self.save()

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        if signal.getsignal(signal.SIGUSR1) != self._handle:  # each experiment of Tune replaces the handler
            self._end = signal.signal(signal.SIGUSR1, self._handle)

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        if self._asked is not None and trial.trial_id not in self._asked:
            self._asked.add(trial.trial_id)
            result[tune.result.SHOULD_CHECKPOINT] = True

    def on_checkpoint(
        self, iteration: int, trials: list[Any], trial: Any, checkpoint: tune.Checkpoint, **info: Any
    ) -> None:
        self._saved.add(trial.trial_id)

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        if self.stopping and all(trial.trial_id in self._saved for trial in trials if trial.status == "RUNNING"):
            self._end(signal.SIGUSR1, None)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.save()
