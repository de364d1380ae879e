"""Results of DQN and its variants: ``python -m benchmarks.studies.values_study FOLDER --figure FILE``.

FOLDER contains the runs of ``studies/values.yaml``, as written by Tune or `benchmarks.keep_study`. Only finished runs
count.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import EngFormatter
from scipy import stats

from benchmarks.measure import table
from benchmarks.studies.study_curves import draw_curves, each_run, read
from benchmarks.studies.study_report import Found, report
from benchmarks.studies.study_table import number

COLORS = {
    "DQN": "#9aa5b1",
    "DDQN": "#3e4c59",
    "DuelingDQN": "#5a8f29",
    "NoisyDQN": "#CC79A7",
    "C51": "#009E73",
    "QRDQN": "#2f7ed8",
    "Rainbow": "#c65d21",
}
"""Colors by algorithm, in display order."""
REQUIRED = {
    "interreplay/Catch-v0": 0.95,
    "CartPole-v1": 475,
    "Acrobot-v1": -85,
    "MountainCar-v0": -115,
    "LunarLander-v3": 200,
    "MinAtar/Breakout-v1": 4.5,
}
"""Return to reach by task, in display order."""
LAST = 3
"""Number of last evaluations to average for the final return; the 20 episodes of a single one are too noisy."""


def display_name(env: str) -> str:
    """Return the displayed name of a task."""
    return env.removeprefix("interreplay/").replace("/", " ").rpartition("-v")[0]


def estimate_mean(values: np.ndarray) -> str:
    """Return the mean of values ``(n,)`` with its 95 % bootstrap interval over seeds."""
    if len(values) < 2 or np.ptp(values) == 0:
        return number(float(values.mean()))
    drawn = stats.bootstrap((values,), np.mean, method="percentile", rng=np.random.default_rng(0)).confidence_interval
    return f"{number(values.mean())} ({number(drawn.low)} to {number(drawn.high)})"


def returns_table(rows: pd.DataFrame) -> str:
    """Return the returns at the end and over the run, including every seed, as markdown."""
    lines = []
    for env, required in REQUIRED.items():
        for algorithm in COLORS:
            runs = each_run(rows[(rows["env"] == env) & (rows["arm"] == algorithm)])
            if runs:
                values = [run["value"] for run in runs]
                last = np.array([value.iloc[-LAST:].mean() for value in values])
                very_last = np.array([value.iloc[-1] for value in values])
                whole = np.array([value.mean() for value in values])
                seeds = ", ".join(map(number, last))
                steps = f"{max(run['steps'].max() for run in runs):,.0f}"
                means = [estimate_mean(found) for found in (last, very_last, whole)]
                lines.append([display_name(env), algorithm, steps, seeds, *means, number(required)])
    heads = ["task", "algorithm", "env steps", "last three evaluations, every seed", "mean", "mean of the last alone"]
    return table([*heads, "mean of all evaluations", "to reach"], lines)


def draw(rows: pd.DataFrame) -> plt.Figure:
    """Return the learning curves, one panel per task, with the returns to reach."""
    figure, axes = plt.subplots(2, 3, figsize=(11.5, 6.2), layout="constrained")
    for axis, (env, required) in zip(axes.flat, REQUIRED.items(), strict=True):
        draw_curves(axis, rows[rows["env"] == env], COLORS)
        axis.axhline(required, color="0.6", lw=0.8, ls=":")
        axis.set_title(display_name(env))
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    for axis in axes[:, 0]:
        axis.set_ylabel("evaluation return")
    handles = [plt.Line2D([], [], color=color, lw=2.2, label=name) for name, color in COLORS.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)
    return figure


def make_report(folder: Path) -> Found:
    """Return the table, and a function that draws the curves."""
    rows = read(folder, arms_by="trainer")
    return returns_table(rows), lambda: draw(rows)


if __name__ == "__main__":
    report("benchmarks.studies.values_study", __doc__, make_report)
