"""Progress of a study: one line per event, and a bar of all env steps or a line from time to time."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, TextIO

from interreplay.experiments.process.outcome import GREEN, RED, colored
from interreplay.experiments.process.progress import ProgressOutput, bar, duration, move, shown

EVERY = 300.0
LEAST = 0.01
"""Share of a run's env steps to make before the time left is estimated: a run may resume just before a result."""


class StudyReporter(ProgressOutput):
    """Reports events of runs, above a progress bar of all env steps if the output is a terminal.

    Runs that are not finished have their total env steps by name, and those at which they resume. Without a bar, a line
    about the whole study is written every `every` seconds.
    """

    def __init__(
        self, totals: Mapping[str, int], saved: Mapping[str, int], done: int, stream: TextIO, every: float = EVERY
    ):
        self._totals = totals
        super().__init__(stream)
        self._every = every
        self._all = len(totals) + done
        self._done = done
        self._steps = dict(saved)
        self._returns: dict[str, dict[str, float]] = {}
        self._saved = sum(saved.values())
        self._started: dict[str, float] = {}
        self._running: set[str] = set()
        self._ended: set[str] = set()
        self._begun = time.monotonic()
        self._last = self._begun
        self.failed: dict[str, str] = {}
        if stream.isatty():
            self._bar = bar(sum(totals.values()), stream, self._saved)

    def on_event(self, event: str, name: str, figures: Mapping[str, Any]) -> None:
        """Record an event of a run, and print a line for retries, failures and ends; see `run_study.run_trials`."""
        reason = str(figures.get("reason", ""))
        if event == "start":
            self._running.add(name)
            self._started.setdefault(name, time.monotonic())
        elif event == "result":
            self._steps[name] = int(figures["env_steps"])
            self._newest_returns(name, figures)
            if self._bar is not None:
                move(self._bar, sum(self._steps.values()), self._left())
        elif event == "retry":
            self._running.discard(name)
            line = f"{name}: failed, trying again from its last checkpoint: {reason}"
            self.note(colored(line, RED, self._stream))
        elif event == "fail":
            self._running.discard(name)
            self._ended.add(name)
            self.failed[name] = reason
            self.note(colored(f"{name}: failed for good: {reason}", RED, self._stream))
        else:
            self._running.discard(name)
            self._end(name, figures, reason)

    def _end(self, name: str, figures: Mapping[str, Any], reason: str) -> None:
        state = figures.get("state", "")
        self._ended.add(name)  # also a run that was interrupted or has failed, which does not continue now
        if state in ("finished", "stopped early"):
            self._done += 1
        if state == "finished":
            state = colored(state, GREEN, self._stream)
        if reason:
            state += f" ({reason})"
        seconds = time.monotonic() - self._started.get(name, self._begun)
        returns = self._newest_returns(name, figures)
        self.note(
            f"[{self._done}/{self._all}] {name}: {state} at {int(figures.get('env_steps', 0)):,} steps, "
            f"return {shown(returns['return'])}, evaluation {shown(returns['evaluation_return'])}, {seconds:,.0f} s"
        )

    def _newest_returns(self, name: str, figures: Mapping[str, Any]) -> dict[str, float]:
        """Return the newest returns of a run, given its current figures; iterations may lack an evaluation."""
        newest = self._returns.setdefault(name, {"return": math.nan, "evaluation_return": math.nan})
        for kind in newest:
            value = figures.get(kind, math.nan)
            if not math.isnan(value):
                newest[kind] = value
        return newest

    def beat(self) -> None:
        """Refresh the bar, or report the progress of the study if the last report is too old."""
        if self._bar is not None:
            self._bar.refresh()
        elif time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            running = ", ".join(f"{n} {self._steps.get(n, 0):,}/{self._totals[n]:,}" for n in sorted(self._running))
            left = "; ".join(filter(None, [running or "none", self._left()]))
            self.note(f"[{self._done}/{self._all}] running: {left}")

    def _left(self) -> str:
        """Return the time left at the mean rate of all runs so far, "" as long as it is unknown."""
        made = sum(self._steps.values()) - self._saved
        left = 0
        for name in self._totals.keys() - self._ended:
            left += self._totals[name] - self._steps.get(name, 0)
        if made < LEAST * max(self._totals.values(), default=0) or left <= 0:
            return ""
        return f"about {duration(left * (time.monotonic() - self._begun) / made)} left"
