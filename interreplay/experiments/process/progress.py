"""Progress of a run or a study: lines, above a progress bar if the output is a terminal."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, TextIO

from tqdm import tqdm

from interreplay.experiments.process.outcome import GREEN, RED, colored, write_line
from interreplay.runs.results.reader import mean_return

EVERY = 300.0
LEAST = 0.01
"""Share of a run's env steps to make before the time left is estimated: a run may resume just before a result."""


class ProgressOutput:
    """Writes lines to a stream, above a progress bar if the stream is a terminal and `quiet` is false."""

    def __init__(self, stream: TextIO, total: int, steps: int, unit: str = "step", quiet: bool = False):
        self._stream = stream
        self._bar: tqdm | None = None
        if stream.isatty() and not quiet:
            self._bar = tqdm(
                total=max(total, steps),
                initial=steps,
                unit=unit,
                file=stream,
                bar_format="{percentage:3.0f}%|{bar}| {n:,}/{total:,} [{elapsed}, {rate_fmt}{postfix}]",
                dynamic_ncols=True,
                smoothing=0.05,
            )

    def note(self, line: str) -> None:
        """Write a line."""
        if self._bar is not None:
            self._bar.write(line, file=self._stream)
        else:
            write_line(line, self._stream)

    def close(self) -> None:
        """Close the bar; it stays on the screen."""
        if self._bar is not None:
            self._bar.close()


def move(progress_bar: tqdm, steps: int, text: str) -> None:
    """Move a bar to a number of steps, with a text behind it."""
    progress_bar.total = max(progress_bar.total or 0, steps)  # tqdm would drop the bar after the last round of sampling
    progress_bar.set_postfix_str(text, refresh=False)
    progress_bar.update(steps - progress_bar.n)


def keep_newest(newest: dict[str, float], figures: Mapping[str, Any]) -> None:
    """Replace the values of `newest` by those in `figures` that are not NaN."""
    for name in newest:
        value = float(figures.get(name, math.nan))
        if not math.isnan(value):
            newest[name] = value


class Reporter(ProgressOutput):
    """Reports steps, steps per second, return and evaluation return, and the success rate if there is one.

    On a terminal, the bar shows the rate and the time left; otherwise, each line does. With the setting ``quiet``, only
    notes are written. A run without env steps counts updates. The rate before learning starts does not predict the
    later rate. `steps` are those at the beginning, and `best` is the highest evaluation return so far.
    """

    def __init__(self, settings: SimpleNamespace, steps: int, stream: TextIO, best: float = math.nan):
        self.unit = "steps" if settings.updates is None else "updates"
        self._total = settings.total_env_steps
        self._quiet = settings.quiet
        self._warm_up = settings.learning_starts
        super().__init__(stream, self._total, steps, self.unit.removesuffix("s"), self._quiet)
        self.start_steps = steps
        self.start_time = time.monotonic()
        self._learning: tuple[int, float] | None = None  # the first report after warm-up
        self._lap_steps = steps
        self._lap_time = self.start_time
        self._best = best
        self._newest = {"return": math.nan, "evaluation_return": math.nan, "success": math.nan}
        self._evaluates_success = False
        self.format_time_left(steps)

    def format_time_left(self, steps: int) -> str:
        """Return the time left such as ``9 min left``, "" if it is unknown or 0."""
        if self._learning is None:
            if steps >= self._warm_up:
                self._learning = (steps, time.monotonic())
            return ""
        first, begun = self._learning
        if not first < steps < self._total:
            return ""
        return f"{duration((self._total - steps) / (steps - first) * (time.monotonic() - begun))} left"

    def progress(self, steps: int) -> None:
        """Move the bar; called after every round of sampling, so it must be cheap."""
        if self._bar is not None:
            move(self._bar, steps, self.format_time_left(steps))

    def iteration(self, steps: int, result: dict[str, Any]) -> None:
        """Report the result of an iteration."""
        evaluation = result.get("evaluation", {})
        success = evaluation.get("env_runners", {}).get("success_rate", math.nan)
        # From the first evaluation on, a success rate of deterministic actions replaces the one of training.
        self._evaluates_success |= not math.isnan(success)
        if not self._evaluates_success:
            success = result.get("env_runners", {}).get("success_rate", math.nan)
        returns = {"return": mean_return(result), "evaluation_return": mean_return(evaluation)}
        self.report(steps, returns | {"success": success})

    def report(self, steps: int, figures: Mapping[str, Any]) -> None:
        """Report ``return``, ``evaluation_return`` and ``success`` of an iteration; NaN repeats the previous value."""
        evaluated = figures["evaluation_return"]
        best = not math.isnan(evaluated) and not evaluated <= self._best
        if best:
            self._best = evaluated
        keep_newest(self._newest, figures)
        self.progress(steps)
        if not self._quiet:
            self.note(self._line(steps, best))
        self._lap_steps = steps
        self._lap_time = time.monotonic()

    def _line(self, steps: int, best: bool) -> str:
        evaluation = f"evaluation {format_return(self._newest['evaluation_return']):>8}"
        if best:
            evaluation = colored(evaluation, GREEN, self._stream)
        figures = f"return {format_return(self._newest['return']):>8}  {evaluation}{self._success('  ')}"
        if self._bar is not None:
            return f"{steps:>9,} {self.unit}  {figures}"
        rate = (steps - self._lap_steps) / max(time.monotonic() - self._lap_time, 1e-9)
        left = self.format_time_left(steps)
        return f"{steps:>9,} / {self._total:,} {self.unit}  {rate:6.0f} {self.unit}/s  {figures}  {left}".rstrip()

    def _success(self, separator: str) -> str:
        """Return the success rate, "" in environments without one."""
        success = self._newest["success"]
        return "" if math.isnan(success) else f"{separator}success {success:.2f}"

    def summary(self, steps: int, best_evaluation: float) -> str:
        """Return the last line's figures; the best evaluation return is NaN if there was no evaluation."""
        seconds = time.monotonic() - self.start_time
        rate = (steps - self.start_steps) / max(seconds, 1e-9)
        evaluation = f"{format_return(self._newest['evaluation_return'])} (best {format_return(best_evaluation)})"
        return (
            f"{steps:,} {self.unit}, {seconds:,.0f} s ({rate:.0f} {self.unit}/s), "
            f"return {format_return(self._newest['return'])}, evaluation return {evaluation}{self._success(', ')}"
        )


def format_return(value: float) -> str:
    """Return a mean return with one decimal, or a dash if there is none yet."""
    return "-" if math.isnan(value) else f"{value:,.1f}"


def duration(seconds: float) -> str:
    """Return a duration in its largest fitting unit: ``40 s``, ``9 min``, ``2.5 h``, ``19 days``."""
    for length, unit in ((1, "s"), (60, "min")):
        if round(seconds / length) < 120:
            return f"{seconds / length:.0f} {unit}"
    length, unit = (3600, "h") if round(seconds / 3600) < 48 else (86_400, "days")
    digits = 0 if seconds / length >= 9.95 else 1
    return f"{seconds / length:.{digits}f} {unit}".replace(".0", "")


class StudyReporter(ProgressOutput):
    """Reports events of runs, above a progress bar of all env steps if the output is a terminal.

    Runs that are not finished have their total env steps by name, and those at which they resume. Without a bar, a line
    about the whole study is written every `every` seconds.
    """

    def __init__(
        self, totals: Mapping[str, int], saved: Mapping[str, int], done: int, stream: TextIO, every: float = EVERY
    ):
        self._saved = sum(saved.values())
        super().__init__(stream, sum(totals.values()), self._saved)
        self._totals = totals
        self._every = every
        self._all = len(totals) + done
        self._done = done
        self._steps = dict(saved)
        self._returns: dict[str, dict[str, float]] = {}
        self._started: dict[str, float] = {}
        self._running: set[str] = set()
        self._ended: set[str] = set()
        self._begun = time.monotonic()
        self._last = self._begun
        self.failed: dict[str, str] = {}

    def on_event(self, event: str, name: str, figures: Mapping[str, Any]) -> None:
        """Record a ``start``, ``result``, ``retry``, ``fail`` or ``end`` of a run; print a line for the last three."""
        reason = str(figures.get("reason", ""))
        returns = self._returns.setdefault(name, {"return": math.nan, "evaluation_return": math.nan})
        keep_newest(returns, figures)
        if event == "start":
            self._running.add(name)
            self._started.setdefault(name, time.monotonic())
            return
        if event == "result":
            self._steps[name] = int(figures["env_steps"])
            if self._bar is not None:
                move(self._bar, sum(self._steps.values()), self._format_time_left())
            return
        self._running.discard(name)
        if event == "retry":
            line = f"{name}: failed, trying again from its last checkpoint: {reason}"
            self.note(colored(line, RED, self._stream))
            return
        self._ended.add(name)  # also a run that was interrupted or has failed, which does not continue now
        if event == "fail":
            self.failed[name] = reason
            self.note(colored(f"{name}: failed for good: {reason}", RED, self._stream))
            return
        state = figures.get("state", "")
        if state in ("finished", "stopped early"):
            self._done += 1
        if state == "finished":
            state = colored(state, GREEN, self._stream)
        if reason:
            state += f" ({reason})"
        seconds = time.monotonic() - self._started.get(name, self._begun)
        self.note(
            f"[{self._done}/{self._all}] {name}: {state} at {int(figures.get('env_steps', 0)):,} steps, "
            f"return {format_return(returns['return'])}, evaluation {format_return(returns['evaluation_return'])}, "
            f"{seconds:,.0f} s"
        )

    def beat(self) -> None:
        """Refresh the bar, or report the progress of the study if the last report is too old. Called often."""
        if self._bar is not None:
            self._bar.refresh()
        elif time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            running = []
            for number in sorted(self._running):
                running.append(f"{number} {self._steps.get(number, 0):,}/{self._totals[number]:,}")
            left = "; ".join(filter(None, [", ".join(running) or "none", self._format_time_left()]))
            self.note(f"[{self._done}/{self._all}] running: {left}")

    def _format_time_left(self) -> str:
        """Return the time left at the mean rate of all runs so far, "" as long as it is unknown."""
        made = sum(self._steps.values()) - self._saved
        left = 0
        for name in self._totals.keys() - self._ended:
            left += self._totals[name] - self._steps.get(name, 0)
        if made < LEAST * max(self._totals.values(), default=0) or left <= 0:
            return ""
        return f"about {duration(left * (time.monotonic() - self._begun) / made)} left"
