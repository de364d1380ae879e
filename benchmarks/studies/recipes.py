"""Tables and figure of the study of two recipes for IMPALA: ``python -m benchmarks.studies.recipes FOLDER``.

FOLDER contains the runs of ``studies/actor_learner_recipes.yaml``, as written by Tune or `benchmarks.keep_study`. The
statistic was fixed in that file before the first run. Only finished runs count.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import EngFormatter

from benchmarks.measure import table
from benchmarks.studies.differences import independent, verdict
from benchmarks.studies.study_curves import draw_curves, each_run, read
from benchmarks.studies.study_report import Found, report

COLORS = {"Preset": "#2f7ed8", "Platform": "#c65d21"}
"""Colors by arm; effects are the first arm minus the second."""
REQUIRED = {"CartPole-v1": 475.0, "MinAtar/Breakout-v1": 3 * 0.416}
"""Final return of a recipe that learns, by task; random actions return .416 on Breakout (1,000 episodes)."""
LAST = 3
"""Number of last evaluations to average for the final return."""


def listed(values: np.ndarray) -> str:
    """Return returns of all seeds, separated by commas."""
    return ", ".join(f"{value:.3g}" for value in values)


def describe(rows: pd.DataFrame) -> str:
    """Return the results of every seed and the effects, as markdown."""
    lines = []
    effects = []
    for env, required in REQUIRED.items():
        found: dict[str, Any] = {}
        for arm in COLORS:
            runs = each_run(rows[(rows["env"] == env) & (rows["arm"] == arm)])
            found[arm] = np.array([run["value"].mean() for run in runs])
            final = np.array([run["value"].iloc[-LAST:].mean() for run in runs])
            steps = int(rows.loc[rows["env"] == env, "steps"].max())
            learns = "yes" if (final >= required).all() else "no"
            cells = [f"{steps:,}", listed(final), f"{required:.3g}", learns, listed(found[arm])]
            lines.append([env, arm, *cells])
        effect = independent(*found.values())
        interval = f"{effect.low:.3g} to {effect.high:.3g}"
        conclusion = verdict(effect, "the preset learns faster", "the platform's recipe learns faster")
        effects.append([env, f"{effect.value:.3g}", interval, conclusion])
    heads = ["task", "arm", "env steps", "final return, every seed", "required", "learns", "area, every seed"]
    of_effects = ["task", " - ".join(COLORS), "95 % interval", "conclusion"]
    return f"{table(heads, lines)}\n\n{table(of_effects, effects)}"


def draw(rows: pd.DataFrame) -> plt.Figure:
    """Return the learning curves, one panel per task, with the required returns."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for axis, (env, required) in zip(axes, REQUIRED.items(), strict=True):
        draw_curves(axis, rows[rows["env"] == env], COLORS)
        axis.axhline(required, color="0.6", lw=0.8, ls=":")
        axis.set_title(env)
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes[0].set_ylabel("evaluation return")
    axes[0].legend(frameon=False)
    return figure


def make_report(folder: Path) -> Found:
    """Return the tables, and a function that draws the figure."""
    rows = read(folder)
    return describe(rows), lambda: draw(rows)


if __name__ == "__main__":
    report("benchmarks.studies.recipes", __doc__, make_report)
