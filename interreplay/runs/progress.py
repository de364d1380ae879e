"""What a run says while it trains: a progress bar on a terminal, else one line per iteration."""

from __future__ import annotations

import math
import time
from typing import Any, TextIO

from tqdm import tqdm


class Reporter:
    """Shows steps, steps per second, return and evaluation return, and the success rate where there is one.

    Args:
        total: Environment steps of the whole run.
        steps: Environment steps that are behind already.
        stream: Where to write.
        quiet: Show nothing but `note`.
        unit: What steps are called.
        warm_up: As of `Clock`.
    """

    def __init__(
        self, total: int, steps: int, stream: TextIO, quiet: bool = False, unit: str = "steps", warm_up: int = 0
    ):
        self.start_steps, self.start_time = steps, time.monotonic()
        self._clock = Clock(warm_up)
        self._clock.left(steps, total)  # where it begins
        self._lap_steps, self._lap_time = steps, self.start_time
        self._total, self._stream, self._quiet, self._unit = total, stream, quiet, unit
        self.last_return = self.last_evaluation = self.last_success = math.nan
        self._bar = None
        if stream.isatty() and not quiet:
            self._bar = tqdm(
                total=total, initial=steps, unit=unit.removesuffix("s"), file=stream, dynamic_ncols=True, smoothing=0.05
            )

    def progress(self, steps: int) -> None:
        """Move the bar; called after every round of sampling, so it must be cheap.

        Args:
            steps: Environment steps so far.
        """
        if self._bar is not None:
            self._bar.update(steps - self._bar.n)

    def iteration(self, steps: int, result: dict[str, Any]) -> None:
        """Report the end of an iteration.

        Args:
            steps: Environment steps so far.
            result: What ``algo.train()`` returned.
        """
        evaluation = result.get("evaluation", {})
        self.last_return = _mean(result, "episode_return_mean", self.last_return)
        self.last_evaluation = _mean(evaluation, "episode_return_mean", self.last_evaluation)
        # That of episodes with deterministic actions, where there are any.
        self.last_success = _mean(evaluation or result, "success_rate", self.last_success)
        if self._bar is not None:
            self._bar.update(steps - self._bar.n)
            returns = f"return {shown(self.last_return)}, evaluation {shown(self.last_evaluation)}"
            self._bar.set_postfix_str(returns + self._success(", "))
        elif not self._quiet:
            self._line(steps)
        self._lap_steps, self._lap_time = steps, time.monotonic()

    def _line(self, steps: int) -> None:
        rate = (steps - self._lap_steps) / max(time.monotonic() - self._lap_time, 1e-9)
        self.note(
            f"{steps:>9,} / {self._total:,} {self._unit}  {rate:6.0f} {self._unit}/s  "
            f"return {shown(self.last_return):>8}  evaluation {shown(self.last_evaluation):>8}"
            f"{self._success('  ')}{self._clock.left(steps, self._total)}"
        )

    def _success(self, separator: str) -> str:
        """Return the success rate; nothing in environments that know no success."""
        return "" if math.isnan(self.last_success) else f"{separator}success {self.last_success:.2f}"

    def note(self, line: str) -> None:
        """Write a line, above the bar where there is one."""
        if self._bar is not None:
            self._bar.write(line, file=self._stream)
        else:
            self._stream.write(line + "\n")
            self._stream.flush()

    def summary(self, steps: int, best_evaluation: float) -> str:
        """Return the last line's figures.

        Args:
            steps: Environment steps so far.
            best_evaluation: The highest evaluation return of the run, NaN where it was never evaluated.
        """
        seconds = time.monotonic() - self.start_time
        rate = (steps - self.start_steps) / max(seconds, 1e-9)
        return (
            f"{steps:,} {self._unit}, {seconds:,.0f} s ({rate:.0f} {self._unit}/s), return {shown(self.last_return)}, "
            f"evaluation return {shown(self.last_evaluation)} (best {shown(best_evaluation)}){self._success(', ')}"
        )

    def close(self) -> None:
        """Leave the bar where it is."""
        if self._bar is not None:
            self._bar.close()


class Clock:
    """Says how long a run will still take, at the rate since its first report after warm-up.

    Args:
        warm_up: Steps without an update, by which nobody can tell how long the others take.
    """

    def __init__(self, warm_up: int = 0) -> None:
        self._warm_up = warm_up
        self._first: tuple[int, float] | None = None

    def left(self, steps: int, total: int) -> str:
        """Return how long the rest would take, "" where that is not known yet; as `left_at`."""
        if self._first is None and steps >= self._warm_up:
            self._first = steps, time.monotonic()
        return left_at(steps, self._first[0], total, self._first[1]) if self._first else ""


def left_at(steps: int, first: int, total: int, since: float) -> str:
    """Return how long the rest would take at the rate so far, "" where nothing is behind or left.

    Args:
        steps: Those of now.
        first: Those at the beginning of this process.
        total: Those of the end.
        since: When it began, by the monotonic clock.
    """
    behind, ahead = steps - first, total - steps
    if behind <= 0 or ahead <= 0:
        return ""
    return f"  {duration(ahead / behind * (time.monotonic() - since))} left"


def shown(value: float) -> str:
    """Return a mean return with one decimal, or a dash where there is none yet."""
    return "-" if math.isnan(value) else f"{value:,.1f}"


def _mean(part: dict[str, Any], name: str, otherwise: float) -> float:
    value = float(part.get("env_runners", {}).get(name, math.nan))
    return otherwise if math.isnan(value) else value


def duration(seconds: float) -> str:
    """Return a duration such as ``2:05 h`` or ``40 s``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60}:{minutes % 60:02d} h"
