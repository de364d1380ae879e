"""Progress of a study: one line per event, and a bar of all env steps or a line from time to time."""

from __future__ import annotations

import math
import re
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, TextIO

from interreplay.experiments.process.outcome import GREEN, RED, colored
from interreplay.experiments.process.progress import bar, duration, shown

EVERY = 300.0


class StudyReporter:
    """Reports events of runs, above a progress bar of all env steps if the output is a terminal.

    Args:
        totals: Env steps of each run that is not finished, by name.
        done: Number of runs that were finished before.
        stream: Receives the reports.
        every: Seconds between two lines about the whole study, without a bar.
    """

    def __init__(self, totals: Mapping[str, int], done: int, stream: TextIO, every: float = EVERY):
        self._totals = totals
        self._stream = stream
        self._every = every
        self._all = len(totals) + done
        self._done = done
        self._steps: dict[str, int] = {}
        self._first: dict[str, int] = {}
        self._seconds: dict[str, float] = {}
        self._started: dict[str, float] = {}
        self._running: set[str] = set()
        self._over: set[str] = set()
        self._begun = time.monotonic()
        self._last = self._begun
        self._left = ""
        self.failed: dict[str, str] = {}
        self._bar = None
        if stream.isatty():
            self._bar = bar(sum(totals.values()), stream)

    def note(self, line: str) -> None:
        """Write a line, above the bar if there is one."""
        if self._bar is not None:
            self._bar.write(line, file=self._stream)
        else:
            self._stream.write(line + "\n")
            self._stream.flush()

    def close(self) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()

    def on_event(self, event: str, name: str, figures: Mapping[str, Any]) -> None:
        """Record an event of a run, and report it unless it is one of many iterations.

        Args:
            event: ``start``, ``result``, ``retry``, ``fail`` or ``end``.
            name: Name of the run.
            figures: ``env_steps`` and returns, or the ``reason`` of a failure.
        """
        if event == "start":
            self._running.add(name)
            self._started[name] = time.monotonic() - self._seconds.get(name, 0.0)
            return
        if event == "result":
            self._steps[name] = int(figures.get("env_steps", 0))
            self._first.setdefault(name, int(figures.get("begun_at", 0)))
            self._seconds[name] = time.monotonic() - self._started.get(name, self._begun)
            self._left = self._estimate()
            if self._bar is not None:
                self._bar.set_postfix_str(self._left, refresh=False)
                self._bar.initial = sum(self._first.values())  # steps of earlier processes do not count for the rate
                self._bar.update(sum(self._steps.values()) - self._bar.n)
            return
        self._running.discard(name)
        reason = str(figures.get("reason", ""))
        if event == "retry":
            line = f"{name}: failed, trying again from its last checkpoint: {reason}"
            self.note(colored(line, RED, self._stream))
        elif event == "fail":
            self.failed[name] = reason
            self.note(colored(f"{name}: failed for good: {reason}", RED, self._stream))
        else:
            self._end(name, figures, reason)

    def _end(self, name: str, figures: Mapping[str, Any], reason: str) -> None:
        state = figures.get("state", "")
        if state in ("finished", "stopped early"):
            self._done += 1
            self._over.add(name)
        if state == "finished":
            state = colored(state, GREEN, self._stream)
        if reason:
            state += f" ({reason})"
        self._left = self._estimate()
        steps = int(figures.get("env_steps", 0))
        seconds = time.monotonic() - self._started.get(name, self._begun)
        left = f"; {self._left}" if self._left and self._bar is None else ""
        self.note(
            f"[{self._done}/{self._all}] {name}: {state} at {steps:,} steps, "
            f"return {shown(figures.get('return', math.nan))}, "
            f"evaluation {shown(figures.get('evaluation_return', math.nan))}, {seconds:,.0f} s{left}"
        )

    def beat(self) -> None:
        """Refresh the bar, or report the progress of the study if the last report is long ago."""
        if self._bar is not None:
            self._bar.refresh()
            return
        if time.monotonic() - self._last < self._every:
            return
        self._last = time.monotonic()
        running = ", ".join(f"{n} {self._steps.get(n, 0):,}/{self._totals[n]:,}" for n in sorted(self._running))
        left = f"; {self._left}" if self._left else ""
        self.note(f"[{self._done}/{self._all}] running: {running or 'none'}{left}")

    def _estimate(self) -> str:
        """Return the time left at the rates so far, "" if it is unknown.

        Runs that differ in nothing but their seeds take equally long. Other runs are assumed to have the mean rate.
        """
        taken: dict[str, int] = defaultdict(int)
        seconds: dict[str, float] = defaultdict(float)
        for name, steps in self._steps.items():
            kind = without_seed(name)
            taken[kind] += steps - self._first.get(name, 0)
            seconds[kind] += self._seconds[name]
        spent = sum(seconds.values())
        made = sum(taken.values())
        if made <= 0:
            return ""
        alone = 0.0
        for name in self._totals.keys() - self._over - self.failed.keys():
            kind = without_seed(name)
            per_step = seconds[kind] / taken[kind] if taken[kind] > 0 else spent / made
            alone += (self._totals[name] - self._steps.get(name, 0)) * per_step
        if alone <= 0:
            return ""
        side_by_side = spent / (time.monotonic() - self._begun)
        return f"about {duration(alone / side_by_side)} left"


def without_seed(name: str) -> str:
    """Return the name of a run without its seed."""
    return re.sub(r"_s\d+$", "", name)
