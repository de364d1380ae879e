"""Progress of a run: one line per iteration, above a progress bar where the output is a terminal."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, TextIO

from tqdm import tqdm

from interreplay.experiments.process.outcome import GREEN, colored


class Bar(tqdm):
    """A progress bar that fits the terminal and states the time left in words.

    Args:
        left: Returns the time left after a number of steps, such as ``9 min left``, or "".
        total: Steps at the end.
        stream: Where to write.
        steps: Steps at the beginning.
        unit: What a step is called.
    """

    def __init__(self, left: Callable[[int], str], total: int, stream: TextIO, steps: int = 0, unit: str = "step"):
        self._left = left
        super().__init__(
            total=total,
            initial=steps,
            unit=unit,
            file=stream,
            bar_format="{percentage:3.0f}%|{bar}| {n:,}/{total:,} [{elapsed}, {rate_fmt}{left}]",
            dynamic_ncols=True,
            smoothing=0.05,
        )

    @property
    def format_dict(self) -> dict[str, Any]:
        """Return what the bar shows, by name."""
        left = self._left(int(self.n))
        return {**super().format_dict, "left": f", {left}" if left else ""}


class Reporter:
    """Reports steps, steps per second, return and evaluation return, and the success rate if there is one.

    On a terminal the bar states the rate and the time left, elsewhere each line does.

    Args:
        total: Environment steps of the whole run.
        steps: Environment steps at the beginning.
        stream: Where to write.
        quiet: Write nothing but `note`.
        unit: What steps are called.
        warm_up: As for `Clock`.
        best: Highest evaluation return so far, NaN if there is none.
    """

    def __init__(
        self,
        total: int,
        steps: int,
        stream: TextIO,
        quiet: bool = False,
        unit: str = "steps",
        warm_up: int = 0,
        best: float = math.nan,
    ):
        self.start_steps = steps
        self.start_time = time.monotonic()
        self._clock = Clock(warm_up)
        self._clock.left(steps, total)  # notes the beginning
        self._lap_steps = steps
        self._lap_time = self.start_time
        self._total = total
        self._stream = stream
        self._quiet = quiet
        self._unit = unit
        self._best = best
        self.last_return = math.nan
        self.last_evaluation = math.nan
        self.last_success = math.nan
        self._bar = None
        if stream.isatty() and not quiet:
            self._bar = Bar(
                lambda n: self._clock.left(n, total),
                total=total,
                steps=steps,
                unit=unit.removesuffix("s"),
                stream=stream,
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
        # A success rate of deterministic actions replaces the one of training.
        self.report(
            steps,
            _mean(result, "episode_return_mean"),
            _mean(evaluation, "episode_return_mean"),
            _mean(evaluation or result, "success_rate"),
        )

    def report(self, steps: int, trained: float, evaluated: float, success: float = math.nan) -> None:
        """Report an iteration by its figures; NaN repeats the previous one.

        Args:
            steps: Environment steps so far.
            trained: Mean return in training.
            evaluated: Mean return of the evaluation.
            success: Success rate.
        """
        best = not math.isnan(evaluated) and not evaluated <= self._best
        if best:
            self._best = evaluated
        self.last_return = _newest(trained, self.last_return)
        self.last_evaluation = _newest(evaluated, self.last_evaluation)
        self.last_success = _newest(success, self.last_success)
        self.progress(steps)
        if not self._quiet:
            self.note(self._line(steps, best))
        self._lap_steps = steps
        self._lap_time = time.monotonic()

    def _line(self, steps: int, best: bool) -> str:
        evaluation = f"evaluation {shown(self.last_evaluation):>8}"
        if best:
            evaluation = colored(evaluation, GREEN, self._stream)
        figures = f"return {shown(self.last_return):>8}  {evaluation}{self._success('  ')}"
        if self._bar is not None:
            return f"{steps:>9,} {self._unit}  {figures}"
        rate = (steps - self._lap_steps) / max(time.monotonic() - self._lap_time, 1e-9)
        left = self._clock.left(steps, self._total)
        figures = f"{figures}  {left}" if left else figures
        return f"{steps:>9,} / {self._total:,} {self._unit}  {rate:6.0f} {self._unit}/s  {figures}"

    def _success(self, separator: str) -> str:
        """Return the success rate, "" in environments without one."""
        return "" if math.isnan(self.last_success) else f"{separator}success {self.last_success:.2f}"

    def note(self, line: str) -> None:
        """Write a line, above the bar if there is one."""
        if self._bar is not None:
            self._bar.write(line, file=self._stream)
        else:
            self._stream.write(line + "\n")
            self._stream.flush()

    def summary(self, steps: int, best_evaluation: float) -> str:
        """Return the last line's figures.

        Args:
            steps: Environment steps so far.
            best_evaluation: Highest evaluation return of the run, NaN if there was no evaluation.
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
    """Estimates how long a run will still take, at the rate since its first report after warm-up.

    Args:
        warm_up: Steps without an update, whose rate does not predict the later one.
    """

    def __init__(self, warm_up: int = 0) -> None:
        self._warm_up = warm_up
        self._first: tuple[int, float] | None = None

    def left(self, steps: int, total: int) -> str:
        """Return the time left such as ``9 min left``, "" if nothing is known or left.

        Args:
            steps: Steps so far.
            total: Steps at the end.
        """
        if self._first is None and steps >= self._warm_up:
            self._first = (steps, time.monotonic())
        if self._first is None:
            return ""
        behind = steps - self._first[0]
        ahead = total - steps
        if behind <= 0 or ahead <= 0:
            return ""
        return f"{duration(ahead / behind * (time.monotonic() - self._first[1]))} left"


def shown(value: float) -> str:
    """Return a mean return with one decimal, or a dash if there is none yet."""
    return "-" if math.isnan(value) else f"{value:,.1f}"


def _mean(part: dict[str, Any], name: str) -> float:
    return float(part.get("env_runners", {}).get(name, math.nan))


def _newest(value: float, before: float) -> float:
    return before if math.isnan(value) else value


def duration(seconds: float) -> str:
    """Return a duration in its largest fitting unit: ``40 s``, ``9 min``, ``2.5 h``, ``19 days``."""
    units = (("s", 1, 120), ("min", 60, 120), ("h", 3_600, 48), ("days", 86_400, math.inf))
    unit, length = next((unit, length) for unit, length, most in units if round(seconds / length) < most)
    count = seconds / length
    if count >= 9.95 or unit in ("s", "min"):
        return f"{count:.0f} {unit}"
    return f"{count:.1f}".removesuffix(".0") + f" {unit}"
