"""Effect of each ingredient: ``python -m benchmarks.studies.ingredients FOLDER --figure FILE``.

FOLDER contains the runs of ``studies/halfcheetah_ingredients.yaml``, as written by Tune or `benchmarks.keep_study`.
Only finished runs count. FOLDER also contains the returns of random actions:
``python -m benchmarks.learning.random_returns FOLDER/random_returns.json HalfCheetah-v5``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import stats

from benchmarks.measure import table
from benchmarks.studies.ratio_report import random_returns
from benchmarks.studies.ratio_statistics import get_areas
from benchmarks.studies.study_curves import draw_curves, read
from benchmarks.studies.study_report import Found, report

COLORS = {"SAC-1": "#9aa5b1", "SAC-20": "#3e4c59", "DroQ": "#2f7ed8", "DroQ-NMER": "#c65d21", "REDQ-5": "#5a8f29"}
"""Colors by arm, in display order; the first arm is the baseline."""


def interval(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Return the 95 % percentile interval of the ratio of two means, with seeds resampled within each arm."""
    if min(len(ours), len(theirs)) < 2:
        return "(one seed)"
    drawn = stats.bootstrap(
        (ours, theirs),
        lambda a, b, axis=-1: a.mean(axis) / b.mean(axis),
        n_resamples=10_000,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return f"({drawn.low:.2f} to {drawn.high:.2f})"


def describe(areas: Mapping[str, np.ndarray]) -> str:
    """Return the areas of every seed and their ratios to the first arm's, as markdown."""
    first = next(iter(areas.values()))
    rows = []
    for arm, values in areas.items():
        ratio = "1" if values is first else f"{values.mean() / first.mean():.2f} {interval(values, first)}"
        rows.append([arm, ", ".join(f"{value:,.0f}" for value in values), f"{values.mean():,.0f}", ratio])
    return table(["arm", "area above random play of every seed", "mean", f"× {next(iter(areas))}"], rows)


def draw(found: pd.DataFrame, areas: Mapping[str, np.ndarray], random: float) -> plt.Figure:
    """Return the figure: learning curves (thin lines: individual seeds), and the areas of each arm."""
    figure, (curves, dots) = plt.subplots(1, 2, figsize=(10, 3.8), width_ratios=(1.6, 1), layout="constrained")
    draw_curves(curves, found, COLORS)
    curves.axhline(random, color="0.6", lw=0.8, ls=":")
    curves.set(ylabel="evaluation return", title="SAC on HalfCheetah-v5")
    curves.legend(frameon=False, fontsize=8)
    for place, (arm, values) in enumerate(reversed(list(areas.items()))):
        dots.plot(values, np.full(len(values), place), "o", color=COLORS[arm], alpha=0.6)
        dots.plot(values.mean(), place, "|", color=COLORS[arm], ms=18, mew=2.5)
    dots.set_yticks(range(len(areas)), list(areas)[::-1])
    dots.axvline(0, color="0.6", lw=0.8, ls=":")
    dots.set(xlabel="area above random play, every seed", ylim=(-0.6, len(areas) - 0.4))
    dots.spines[["top", "right"]].set_visible(False)
    return figure


def make_report(folder: Path) -> Found:
    """Return the table, and a function that draws the figure."""
    (random,) = random_returns(folder).values()
    found = read(folder)
    areas = {arm: get_areas(found[found["arm"] == arm], random) for arm in COLORS if arm in set(found["arm"])}
    return describe(areas), lambda: draw(found, areas, random)


if __name__ == "__main__":
    report("benchmarks.studies.ingredients", __doc__, make_report)
