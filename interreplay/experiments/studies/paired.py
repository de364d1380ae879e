"""Differences between the arms of a fork, paired by seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from interreplay.runs.results.intervals import CONFIDENCE
from interreplay.runs.results.reader import curve

MEASURES = {"mean": "mean return after the fork", "final": "final return"}
Curve = list[tuple[int, float]]


@dataclass(frozen=True)
class Difference:
    """The difference between the means of two arms, with the 95 % interval of Student's t distribution.

    The bounds are NaN with fewer than two seeds.
    """

    value: float
    low: float
    high: float
    seeds: int

    def __str__(self) -> str:
        interval = "" if math.isnan(self.low) else f" [{self.low:+,.1f}, {self.high:+,.1f}]"
        return f"{self.value:+,.1f}{interval}"


def read_arms(folders: Mapping[tuple[str, int], Path], step: int) -> dict[str, dict[int, Curve]]:
    """Return the curves after the fork at env step `step`, by arm and seed; runs without results are left out."""
    found: dict[str, dict[int, Curve]] = {}
    for (arm, seed), folder in folders.items():
        points = [point for point in curve(folder) if point[0] > step]
        if points:
            found.setdefault(arm, {})[seed] = points
    return found


def compare_seeds(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Difference:
    """Return the mean of the differences between the values of equal seeds."""
    differences = (pd.Series(ours, dtype=float) - pd.Series(theirs, dtype=float)).dropna()
    low = math.nan
    high = math.nan
    if len(differences) > 1:
        low, high = map(float, stats.ttest_1samp(differences, 0.0).confidence_interval(CONFIDENCE))
    return Difference(float(differences.mean()), low=low, high=high, seeds=len(differences))


def make_table(arms: Mapping[str, Mapping[int, Curve]]) -> list[tuple[str, ...]]:
    """Return the lines of a table: each arm with its means, and its differences from the first arm."""
    rows = pd.DataFrame(make_rows(arms)).set_index("seed")
    first = rows["arm"].iloc[0]
    compared = rows[rows["arm"] == first]
    lines: list[tuple[str, ...]] = [("arm", "seeds", *MEASURES.values(), *(f"{n} - {first}" for n in MEASURES))]
    for arm, values in rows.groupby("arm", sort=False):
        means: list[str] = []
        differences: list[str] = []
        for name in MEASURES:
            means.append(f"{values[name].mean():,.1f}")
            differences.append("" if arm == first else str(compare_seeds(dict(values[name]), dict(compared[name]))))
        lines.append((arm, str(len(values)), *means, *differences))
    return lines


def make_rows(arms: Mapping[str, Mapping[int, Curve]]) -> list[dict[str, Any]]:
    """Return a row per run: arm, seed, last env step and `MEASURES`."""
    rows = []
    for arm, curves in arms.items():
        for seed, points in sorted(curves.items()):
            mean = float(np.array(points)[:, 1].mean())
            rows.append({"arm": arm, "seed": seed, "step": points[-1][0], "mean": mean, "final": points[-1][1]})
    return rows
