"""Tables and figure of the study of replayed unrolls: ``python -m benchmarks.studies.unroll_study FOLDER``.

FOLDER contains the runs of ``studies/unroll_replay.yaml``, as written by Tune or `benchmarks.keep_study`. The statistic
was fixed in that file before the first run. Only finished runs count.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import EngFormatter

from benchmarks.measure import table
from benchmarks.studies.arm_pairs import contrast
from benchmarks.studies.ratio_statistics import Estimate, Task, estimate, get_areas, holm
from benchmarks.studies.study_curves import draw_curves, draw_ratios, each_run, read
from benchmarks.studies.study_report import Found, report

COLORS = {
    "Fresh": "#3e4c59",
    "Standard": "#2f7ed8",
    "Attentive": "#5a8f29",
    "Elite-1": "#f0b429",
    "Elite-3": "#c65d21",
    "Standard-3-4": "#8e6bbf",
}
"""Colors by arm, in display order."""
PRIMARY = (("Standard", "Fresh"), ("Elite-3", "Standard"))
SECONDARY = (("Elite-1", "Standard"), ("Attentive", "Standard"), ("Standard-3-4", "Fresh"))
EARLY = (70_000, 110_000, 240_000, 500_000)
"""Env steps around which mean returns are also shown."""
NEAR = 25_000
"""Number of env steps before and after each of these over which returns are averaged."""


def effects(tasks: Mapping[str, Task]) -> dict[tuple[str, str, str], Estimate]:
    """Return the ratios by task and pair of arms; `PRIMARY` p-values are corrected by Holm over the tasks of a pair."""
    found = {}
    for pair in PRIMARY + SECONDARY:
        of_pair = {}
        for env, task in tasks.items():
            if set(pair) <= set(task):
                of_pair[env] = estimate([{arm: task[arm] for arm in pair}], contrast(*pair))
        corrected = holm({env: one.p for env, one in of_pair.items()}) if pair in PRIMARY else {}
        for env, one in of_pair.items():
            key = (env, *pair)
            found[key] = Estimate(one.ratio, one.low, one.high, corrected.get(env, one.p))
    return found


def around(run: pd.DataFrame) -> list[float]:
    """Return the means of a run's values within `NEAR` steps of each of `EARLY`."""
    return [float(run[(run["steps"] - step).abs() <= NEAR]["value"].mean()) for step in EARLY]


def early(rows: pd.DataFrame) -> list[list[str]]:
    """Return mean returns and standard errors at `EARLY` steps, a row per task and arm."""
    lines = []
    for (env, arm), runs in rows.sort_values("env", kind="stable").groupby(["env", "arm"], sort=False):
        each = [around(run) for run in each_run(runs)]
        means = np.mean(each, axis=0)
        errors = np.std(each, axis=0, ddof=1) / np.sqrt(len(each))
        cells = [f"{mean:.2f} ± {error:.2f}" for mean, error in zip(means, errors, strict=True)]
        lines.append([str(env), str(arm), str(len(each)), *cells])
    return lines


def describe(rows: pd.DataFrame, tasks: Mapping[str, Task], found: Mapping[tuple[str, str, str], Estimate]) -> str:
    """Return the areas of every seed, the returns at `EARLY` steps, and the effects, as markdown."""
    areas = []
    for env, task in tasks.items():
        for arm, values in task.items():
            areas.append([env, arm, ", ".join(f"{value:.2f}" for value in values), f"{values.mean():.2f}"])
    lines = []
    for (env, ours, theirs), e in found.items():
        p = f"{e.p:.3f}" if e.p >= 0.001 else "< .001"
        lines.append([env, f"{ours} : {theirs}", f"{e.ratio:.2f}", f"{e.low:.2f} to {e.high:.2f}", p])
    steps = [f"around {step:,}" for step in EARLY]
    parts = [
        table(["task", "arm", "mean return in training over the run, every seed", "mean"], areas),
        table(["task", "arm", "seeds", *steps], early(rows)),
        table(["task", "arms", "ratio", "95 % interval", "p"], lines),
    ]
    return "\n\n".join(parts)


def draw(rows: pd.DataFrame, found: Mapping[tuple[str, str, str], Estimate]) -> plt.Figure:
    """Return the figure: learning curves of each task, and the ratios with their intervals."""
    envs = list(dict.fromkeys(rows["env"]))
    figure, axes = plt.subplots(1, len(envs) + 1, figsize=(4 * len(envs) + 5, 3.8), layout="constrained")
    for axis, env in zip(axes, envs, strict=False):
        draw_curves(axis, rows[rows["env"] == env], COLORS, smooth=5)
        axis.set_title(env.split("/")[-1])
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes[0].set_ylabel("return in training")
    axes[0].legend(frameon=False, fontsize=8)
    names = {key: f"{key[1]} : {key[2]}, {key[0].split('/')[-1].split('-')[0]}" for key in found}
    strong = [name for key, name in names.items() if key[1:] in PRIMARY]
    draw_ratios(axes[-1], {names[key]: (e.ratio, e.low, e.high) for key, e in found.items()}, strong)
    return figure


def make_report(folder: Path) -> Found:
    """Return the tables, and a function that draws the figure."""
    rows = read(folder, "training")
    rows = rows.sort_values("arm", key=lambda arms: arms.map(list(COLORS).index), kind="stable")
    tasks: dict[str, Task] = {}
    for env, of_env in rows.groupby("env"):
        tasks[str(env)] = {str(arm): get_areas(runs, first=0) for arm, runs in of_env.groupby("arm", sort=False)}
    found = effects(tasks)
    return describe(rows, tasks, found), lambda: draw(rows, found)


if __name__ == "__main__":
    report("benchmarks.studies.unroll_study", __doc__, make_report)
