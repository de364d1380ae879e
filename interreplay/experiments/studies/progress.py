"""Progress of a study: a line per event, and a bar or now and then a line about the whole."""

from __future__ import annotations

import math
import re
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, TextIO

from interreplay.experiments.process.outcome import GREEN, RED, colored
from interreplay.experiments.process.progress import Bar, duration, shown

EVERY = 300.0


def without_seed(name: str) -> str:
    """Return a run's name without its seed: runs that differ in nothing else take equally long."""
    return re.sub(r"_s\d+$", "", name)


class StudyReporter:
    """Reports events of runs, above a progress bar of all env steps where the output is a terminal.

    Args:
        totals: Env steps of every run that is still to be done, by name.
        done: How many runs were finished before.
        stream: Where to write.
        every: Seconds between two lines about the whole, where there is no bar.
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
        self._begun = self._last = time.monotonic()
        self._left = ""
        self.failed: dict[str, str] = {}
        self._bar = None
        if stream.isatty():
            self._bar = Bar(lambda n: self._left, sum(totals.values()), stream)

    def note(self, line: str) -> None:
        """Write a line, above the bar if there is one."""
        if self._bar is not None:
            self._bar.write(line, file=self._stream)
        else:
            self._stream.write(line + "\n")
            self._stream.flush()

    def close(self) -> None:
        """Leave the bar where it is."""
        if self._bar is not None:
            self._bar.close()

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
            self._left = self._estimate()
            self._move_bar()
        else:
            self._running.discard(name)
            getattr(self, f"_{event}")(name, figures)

    def _move_bar(self) -> None:
        if self._bar is not None:
            self._bar.initial = sum(self._first.values())  # steps of earlier processes do not count for the rate
            self._bar.update(sum(self._steps.values()) - self._bar.n)

    def _retry(self, name: str, figures: Mapping[str, Any]) -> None:
        line = f"{name}: failed, trying again from its last checkpoint: {figures.get('reason', '')}"
        self.note(colored(line, RED, self._stream))

    def _fail(self, name: str, figures: Mapping[str, Any]) -> None:
        self.failed[name] = str(figures.get("reason", ""))
        self.note(colored(f"{name}: failed for good: {self.failed[name]}", RED, self._stream))

    def _end(self, name: str, figures: Mapping[str, Any]) -> None:
        state = figures.get("state", "")
        if state in ("finished", "stopped early"):
            self._done += 1
            self._over.add(name)
        returns = f"return {shown(figures.get('return', math.nan))}, evaluation "
        returns += shown(figures.get("evaluation_return", math.nan))
        seconds = time.monotonic() - self._started.get(name, self._begun)
        shown_state = colored(state, GREEN, self._stream) if state == "finished" else state
        self._left = self._estimate()
        left = f"; {self._left}" if self._left and self._bar is None else ""
        reason = f" ({figures['reason']})" if figures.get("reason") else ""
        self.note(
            f"[{self._done}/{self._all}] {name}: {shown_state}{reason} at {int(figures.get('env_steps', 0)):,} steps, "
            f"{returns}, {seconds:,.0f} s{left}"
        )

    def beat(self) -> None:
        """Report how far the whole is, when it is time to."""
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
        """Return how long it would take at the rates so far, each run at that of other seeds where there was one."""
        taken = defaultdict[str, int](int)
        seconds = defaultdict[str, float](float)
        todo = defaultdict[str, int](int)
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
        return f"about {duration(alone / side_by_side)} left"
