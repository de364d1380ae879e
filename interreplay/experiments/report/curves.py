"""Learning curves of several runs at common steps, and the numbers that summarize a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import integrate

from interreplay.experiments.report.reading import Run
from interreplay.runs.results.intervals import Array

POINTS = 200
LAST = 0.1
"""Share of the steps at the end over which the final return is averaged."""
SUMMARIES = {"auc": "Area under the curve", "final": "Final return"}
"""What `Curves.summary` computes for each run."""


@dataclass(frozen=True)
class Curves:
    """Values ``(runs, t)`` of several runs at common environment steps ``(t,)``."""

    steps: Array
    values: Array

    def summary(self, kind: str) -> Array:
        """Return a number per run, one of `SUMMARIES`: ``(runs,)``."""
        return self.means() if kind == "auc" else self.finals()

    def means(self) -> Array:
        """Return the mean of each run over steps, the area under its curve over its length: ``(runs,)``."""
        length = self.steps[-1] - self.steps[0]
        if not length:
            return self.values[:, 0]
        first = self.values[:, :1]  # subtracted, so that equal returns have exactly their mean
        return first[:, 0] + integrate.trapezoid(self.values - first, self.steps, axis=1) / length

    def finals(self) -> Array:
        """Return the mean of each run over the last tenth of the steps, as `means` does over all: ``(runs,)``."""
        start = self.steps[-1] - LAST * (self.steps[-1] - self.steps[0])
        return self.between(start, self.steps[-1]).means()

    def between(self, low: float, high: float) -> Curves:
        """Return the curves over a part of their steps, interpolated at its ends."""
        inside = self.steps[(self.steps >= low) & (self.steps <= high)]
        return self._interpolate(np.union1d(inside, [low, high]))

    def thin(self) -> Curves:
        """Return the curves at 200 evenly spaced steps if they have more, for figures and intervals at each step."""
        if len(self.steps) <= POINTS:
            return self
        return self._interpolate(np.linspace(self.steps[0], self.steps[-1], POINTS))

    def _interpolate(self, grid: Array) -> Curves:
        return Curves(grid, np.stack([np.interp(grid, self.steps, values) for values in self.values]))

    def find_threshold_steps(self, threshold: float) -> Array:
        """Return the first step of each run with a value of at least a threshold, infinity for none: ``(runs,)``."""
        above = self.values >= threshold
        return np.where(above.any(axis=1), self.steps[above.argmax(axis=1)], np.inf)


def points(run: Run, column: str) -> tuple[Array, Array]:
    """Return the environment steps and the values of a run, ``(t,)`` each."""
    rows = run.results[["env_steps", column]].dropna()
    return rows["env_steps"].to_numpy(dtype=float), rows[column].to_numpy(dtype=float)


def align(runs: Sequence[Run], column: str) -> Curves | None:
    """Return runs at the steps at which any of them has a value, within the range that all of them have.

    Runs are interpolated linearly. Return None if no run has a value of the column, or there is no common range.
    """
    listed = [points(run, column) for run in runs if run.has(column)]
    grid = np.array([])
    for steps, _ in listed:
        grid = np.union1d(grid, steps)
    for steps, _ in listed:
        grid = grid[(grid >= steps[0]) & (grid <= steps[-1])]
    if not len(grid):
        return None
    return Curves(grid, np.stack([np.interp(grid, steps, values) for steps, values in listed]))


def restrict_to_common_range(curves: dict[str, Curves]) -> tuple[dict[str, Curves], float]:
    """Return the curves of several methods over the range that all of them have, and its last step.

    Curves without a value at an end of this range are interpolated there.
    """
    low = max(c.steps[0] for c in curves.values())
    high = min(c.steps[-1] for c in curves.values())
    if low > high:
        return {}, float(high)
    return {method: c.between(low, high) for method, c in curves.items()}, float(high)
