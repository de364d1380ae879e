"""What a study says while it runs: a line per event, and now and then one about the whole."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from interreplay.runs.progress import duration, shown

EVERY = 300.0


class StudyReporter:
    """Says what happens to runs; made for log files, where nothing is drawn twice.

    Args:
        totals: Env steps of every run that is still to be done, by name.
        done: How many runs were finished before.
        say: Takes a line.
        every: Seconds between two lines about the whole.
    """

    def __init__(self, totals: Mapping[str, int], done: int, say: Callable[[str], Any], every: float = EVERY):
        self._totals, self._say, self._every = totals, say, every
        self._all, self._done = len(totals) + done, done
        self._steps: dict[str, int] = {}
        self._first: dict[str, int] = {}
        self._started: dict[str, float] = {}
        self._running: set[str] = set()
        self._begun = self._last = time.monotonic()
        self.failed: dict[str, str] = {}

    def tell(self, event: str, name: str, figures: Mapping[str, Any]) -> None:
        """Take note of what happened to a run, and report it unless it is one of many iterations.

        Args:
            event: ``start``, ``result``, ``retry``, ``fail`` or ``end``.
            name: The run's.
            figures: ``env_steps`` and returns, or the ``reason`` of a failure.
        """
        if event == "start":
            self._running.add(name)
            self._started[name] = time.monotonic()
        elif event == "result":
            self._steps[name] = int(figures.get("env_steps", 0))
            self._first.setdefault(name, int(figures.get("begun_at", 0)))
        else:
            self._running.discard(name)
            getattr(self, f"_{event}")(name, figures)

    def _retry(self, name: str, figures: Mapping[str, Any]) -> None:
        self._say(f"{name}: failed, trying again from its last checkpoint: {figures.get('reason', '')}")

    def _fail(self, name: str, figures: Mapping[str, Any]) -> None:
        self.failed[name] = str(figures.get("reason", ""))
        self._say(f"{name}: failed for good: {self.failed[name]}")

    def _end(self, name: str, figures: Mapping[str, Any]) -> None:
        state = figures.get("state", "")
        self._done += state in ("finished", "stopped early")
        returns = f"return {shown(figures.get('return', math.nan))}, evaluation "
        returns += shown(figures.get("evaluation_return", math.nan))
        seconds = time.monotonic() - self._started.get(name, self._begun)
        self._say(
            f"[{self._done}/{self._all}] {name}: {state} at {int(figures.get('env_steps', 0)):,} steps, {returns}, "
            f"{seconds:,.0f} s{self._left()}"
        )

    def beat(self) -> None:
        """Report how far the whole is, when it is time to."""
        if time.monotonic() - self._last < self._every:
            return
        self._last = time.monotonic()
        running = ", ".join(f"{n} {self._steps.get(n, 0):,}/{self._totals[n]:,}" for n in sorted(self._running))
        self._say(f"[{self._done}/{self._all}] running: {running or 'none'}{self._left()}")

    def _left(self) -> str:
        """Return how long it would take at the rate so far."""
        taken = sum(steps - self._first.get(name, 0) for name, steps in self._steps.items())
        todo = sum(total - self._steps.get(name, 0) for name, total in self._totals.items() if name not in self.failed)
        if taken <= 0 or todo <= 0:
            return ""
        return f"; about {duration(todo / taken * (time.monotonic() - self._begun))} left"
