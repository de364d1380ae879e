"""Results of V-trace on Pong: ``python -m benchmarks.studies.pong FOLDER --figure FILE``.

FOLDER contains the runs of ``studies/pong.yaml``, as written by Tune or `benchmarks.keep_study`. Only finished runs
count.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.ticker import EngFormatter

from benchmarks.measure import table
from benchmarks.studies.study_curves import draw_curves, each_run, read
from benchmarks.studies.study_report import Found, report

COLORS = {
    "Scaled-Fresh": "#9aa5b1",
    "Scaled-Replayed": "#3e4c59",
    "Normalized-Fresh": "#2f7ed8",
    "Normalized-Replayed": "#c65d21",
}
"""Colors by arm, in display order."""
AT = (100_000, 200_000, 300_000, 400_000)
"""Env steps at which returns are shown."""
NEAR = 30_000
"""Number of env steps before each of these over which returns are averaged."""


def at(run: pd.DataFrame, steps: int) -> float:
    """Return the mean of a run's returns in the `NEAR` env steps before `steps`."""
    near = (run["steps"] > steps - NEAR) & (run["steps"] <= steps + 1_000)
    return float(run.loc[near, "value"].mean())


def returns_table(rows: pd.DataFrame) -> str:
    """Return the returns of every seed at `AT` env steps, as markdown."""
    lines = []
    for arm in COLORS:
        runs = each_run(rows[rows["arm"] == arm])
        if runs:
            line = [arm.replace("-", ", ").lower()]
            for steps in AT:
                line.append(", ".join(f"{at(run, steps):.1f}" for run in runs))
            lines.append(line)
    return table(["pixels, unrolls", *(f"{steps:,}" for steps in AT)], lines)


def draw(rows: pd.DataFrame) -> plt.Figure:
    """Return the learning curves."""
    figure, axis = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    draw_curves(axis, rows, COLORS)
    axis.set(ylabel="return in training", ylim=(-21.5, 21.5), title="V-trace on Pong")
    axis.xaxis.set_major_formatter(EngFormatter())
    axis.legend(frameon=False, fontsize=8)
    return figure


def make_report(folder: Path) -> Found:
    """Return the table, and a function that draws the curves."""
    rows = read(folder, "training")
    return returns_table(rows), lambda: draw(rows)


if __name__ == "__main__":
    report("benchmarks.studies.pong", __doc__, make_report)
