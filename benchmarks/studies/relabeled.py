"""Tables and figure of the study of transitions from another task: ``python -m benchmarks.studies.relabeled FOLDER``.

FOLDER contains the runs of ``studies/relabeled_data.yaml``, as written by Tune or `benchmarks.keep_study`. The
statistic was fixed in that file before the first run. Only finished runs count.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.ticker import EngFormatter

from benchmarks.measure import table
from benchmarks.studies.differences import independent, verdict
from benchmarks.studies.study_curves import draw_curves, each_run, read
from benchmarks.studies.study_report import Found, report

COLORS = {"nothing": "0.4", "relabeled": "#2f7ed8", "old": "#c65d21"}
"""Colors by arm: no old data, old data with the new reward, old data with the old reward."""
TASKS = {"Pendulum-v1": "Pendulum, turning", "HalfCheetah-v5": "HalfCheetah, backwards"}


def describe(rows: pd.DataFrame) -> str:
    """Return the results of every seed and the effects, as markdown."""
    lines = []
    effects = []
    for env, task in TASKS.items():
        areas = {}
        for arm in COLORS:
            runs = each_run(rows[(rows["env"] == env) & (rows["arm"] == arm)])
            areas[arm] = [run["value"].mean() for run in runs]
            seeds = ", ".join(f"{area:.3g}" for area in areas[arm])
            final = sum(run["value"].iloc[-1] for run in runs) / len(runs)
            steps = int(runs[0]["steps"].max())
            lines.append([task, arm, f"{steps:,}", seeds, f"{final:.3g}"])
        for arm in ("relabeled", "old"):
            effect = independent(areas[arm], areas["nothing"])
            interval = f"{effect.low:.3g} to {effect.high:.3g}"
            conclusion = verdict(effect, "helps", "harms")
            effects.append([task, f"{arm} - nothing", f"{effect.value:.3g}", interval, conclusion])
    heads = ["task", "arm", "env steps", "area, every seed", "last evaluation, mean"]
    of_effects = ["task", "arms", "difference of areas", "95 % interval", "conclusion"]
    return f"{table(heads, lines)}\n\n{table(of_effects, effects)}"


def draw(rows: pd.DataFrame) -> plt.Figure:
    """Return the learning curves, one panel per task."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for axis, (env, task) in zip(axes, TASKS.items(), strict=True):
        draw_curves(axis, rows[rows["env"] == env], COLORS)
        axis.set_title(task)
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes[0].set_ylabel("evaluation return, new reward")
    axes[0].legend(frameon=False, title="old data")
    return figure


def make_report(folder: Path) -> Found:
    """Return the tables, and a function that draws the figure."""
    rows = read(folder)
    return describe(rows), lambda: draw(rows)


if __name__ == "__main__":
    report("benchmarks.studies.relabeled", __doc__, make_report)
