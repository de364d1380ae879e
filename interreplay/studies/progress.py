"""What a study says while it runs: a line per event, and now and then one about the whole."""

from __future__ import annotations

import math
import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from interreplay.runs.progress import duration, shown

EVERY = 300.0


def without_seed(name: str) -> str:
    """Return a run's name without its seed: runs that differ in nothing else take equally long."""
    return re.sub(r"_s\d+$", "", name)


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
        self._seconds: dict[str, float] = {}
        self._started: dict[str, float] = {}
        self._running: set[str] = set()
        self._over: set[str] = set()
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
            self._started[name] = time.monotonic() - self._seconds.get(name, 0.0)
        elif event == "result":
            self._steps[name] = int(figures.get("env_steps", 0))
            self._first.setdefault(name, int(figures.get("begun_at", 0)))
            self._seconds[name] = time.monotonic() - self._started.get(name, self._begun)
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
        if state in ("finished", "stopped early"):
            self._done += 1
            self._over.add(name)
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
        """Return how long it would take at the rates so far, each run at that of other seeds where there was one."""
        taken, seconds, todo = defaultdict[str, int](int), defaultdict[str, float](float), defaultdict[str, int](int)
        for name, steps in self._steps.items():
            taken[without_seed(name)] += steps - self._first.get(name, 0)
            seconds[without_seed(name)] += self._seconds[name]
        for name in self._totals.keys() - self._over - self.failed.keys():
            todo[without_seed(name)] += self._totals[name] - self._steps.get(name, 0)
        spent, made = sum(seconds.values()), sum(taken.values())
        if made <= 0 or sum(todo.values()) <= 0:
            return ""
        alone = sum(n * (seconds[kind] / taken[kind] if taken[kind] > 0 else spent / made) for kind, n in todo.items())
        side_by_side = spent / (time.monotonic() - self._begun)
        return f"; about {duration(alone / side_by_side)} left"
