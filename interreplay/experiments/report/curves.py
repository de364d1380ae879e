"""Runs aligned by environment steps, and what a run is judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import integrate

from interreplay.experiments.report.reading.runs import Run
from interreplay.runs.results.intervals import Array

POINTS = 200
AXES = {"env_steps": "environment steps", "updates": "updates", "seconds": "wall-clock time"}
"""What learning curves are drawn over; all else is by environment steps."""
LAST = 0.1
"""The share of the steps at the end over which the final return is averaged."""


@dataclass(frozen=True)
class Curves:
    """Runs at common steps.

    Attributes:
        steps: Environment steps ``(t,)``, or another of `AXES`.
        values: ``(runs, t)``.
    """

    steps: Array
    values: Array

    def means(self) -> Array:
        """Return of each run the mean over steps, the area under its curve by the length of the range: ``(runs,)``."""
        length = self.steps[-1] - self.steps[0]
        return integrate.trapezoid(self.values, self.steps, axis=1) / length if length else self.values[:, 0]

    def finals(self) -> Array:
        """Return of each run the mean over the last tenth of the steps, the last value at least: ``(runs,)``."""
        start = self.steps[-1] - LAST * (self.steps[-1] - self.steps[0])
        return self.values[:, self.steps >= start].mean(axis=1)

    def reached(self, threshold: float) -> Array:
        """Return when each run was first at or above a threshold, in steps, infinity for never: ``(runs,)``."""
        above = self.values >= threshold
        return np.where(above.any(axis=1), self.steps[above.argmax(axis=1)], np.inf)


def points(run: Run, column: str, axis: str = "env_steps") -> tuple[Array, Array]:
    """Return steps, or numbers of another axis, and values of one run where it has any; the last of equal steps."""
    rows = run.results[[axis, column]]
    if axis == "updates":  # none are reported before the first
        rows = rows.assign(updates=rows["updates"].fillna(0.0))
    rows = rows.dropna().drop_duplicates(axis, keep="last")
    return rows[axis].to_numpy(dtype=float), rows[column].to_numpy(dtype=float)


def align(runs: Sequence[Run], column: str, axis: str = "env_steps") -> Curves | None:
    """Return runs at the steps at which any of them was looked at, within the range that all of them have.

    Between its own steps a run is taken to be linear. More than 200 steps are thinned to 200 evenly spaced ones.
    `axis` may be another one of `AXES`.

    Returns:
        The curves, None where there is no run or no common range.
    """
    listed = [points(run, column, axis) for run in runs if run.has(column) and run.has(axis)]
    if not listed:
        return None
    low, high = max(steps[0] for steps, _ in listed), min(steps[-1] for steps, _ in listed)
    grid = np.unique(np.concatenate([steps for steps, _ in listed]))
    grid = grid[(grid >= low) & (grid <= high)]
    if not len(grid):
        return None
    if len(grid) > POINTS:
        grid = np.linspace(low, high, POINTS)
    return Curves(grid, np.stack([np.interp(grid, steps, values) for steps, values in listed]))


def together(curves: dict[str, Curves]) -> tuple[dict[str, Curves], float]:
    """Return the curves of several methods over the steps that all of them have, and the last of these steps."""
    low = max(c.steps[0] for c in curves.values())
    high = min(c.steps[-1] for c in curves.values())
    inside: dict[str, Any] = {}
    for method, c in curves.items():
        kept = (c.steps >= low) & (c.steps <= high)
        if not kept.any():
            return {}, high
        inside[method] = Curves(c.steps[kept], c.values[:, kept])
    return inside, float(high)
