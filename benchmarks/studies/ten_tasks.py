"""NMER compared with uniform replay or with NaiveMixup on ten tasks: ``python -m benchmarks.studies.ten_tasks FOLDER``.

FOLDER contains the runs of ``studies/nmer_ten_tasks.yaml`` (uniform replay) or ``studies/mixup_ten_tasks.yaml``
(NaiveMixup), as written by Tune or `benchmarks.keep_study`, and the returns of random actions
(``python -m benchmarks.learning.random_returns FOLDER/random_returns.json ENV ...``). The folder
``sample_efficiency_confirmation`` next to it contains the runs with NMER. NaiveMixup is also compared with uniform
replay, whose runs are in the neighboring folder ``nmer_ten_tasks``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from benchmarks.measure import table
from benchmarks.studies.arm_pairs import contrast
from benchmarks.studies.published_comparison import METHODS, find_published, iqm
from benchmarks.studies.ratio_report import group_by_task, missing_runs, random_returns, whole_seeds
from benchmarks.studies.ratio_statistics import Estimate, Task, bootstrapped, effect, estimate, improvement
from benchmarks.studies.screening import short
from benchmarks.studies.study_curves import draw_curves, draw_ratios, read
from benchmarks.studies.study_report import Found, report

ARM = "nmer-layer-norm"
UNIFORM = "uniform-layer-norm"
MIXUP = "mixup-layer-norm"
COLORS = {ARM: "#c65d21", MIXUP: "#2f9e75", UNIFORM: "#33658a"}
CONFIRMATION = "sample_efficiency_confirmation"
UNIFORM_STUDY = "nmer_ten_tasks"
BRO_STEPS = 25_000
CHOSEN_ON = ("dm_control/cheetah-run-v0", "HalfCheetah-v5", "dm_control/cartpole-swingup-v0")
"""Tasks on which the preset's settings were chosen."""
FLOOR = 0.01
"""Lower bound of mean areas, as a share of BRO's published return."""
ALL = "all tasks"
Ratio = tuple[float, float, float]
"""A ratio of areas and the bounds of its 95 % interval, NaN with one seed."""
Pair = tuple[str, str]
"""Two arms; the area of the first is divided by that of the second."""
NEGLIGIBLE = 1.16
"""A ratio between this number and its reciprocal is negligible."""


@dataclass(frozen=True)
class Words:
    """Conclusions from an interval above and below 1, as fixed in advance."""

    better: str
    worse: str


WORDS = {
    UNIFORM: Words("the benefit of NMER is confirmed", "NMER harms"),
    MIXUP: Words("near partners are better than random ones", "near partners are worse than random ones"),
}


def conclusion(primary: Estimate, baseline: str = UNIFORM) -> str:
    """Return the conclusion from the comparison of NMER with an arm, in the words that were fixed in advance."""
    if primary.low > 1:
        return WORDS[baseline].better
    if primary.high < 1:
        return WORDS[baseline].worse
    if primary.low > 1 / NEGLIGIBLE and primary.high < NEGLIGIBLE:
        return "the difference is negligible"
    return "undecided"


def floors(tasks: Mapping[str, Task]) -> list[float]:
    """Return the lower bounds of mean areas, in the order of tasks."""
    return [FLOOR * find_published(env, METHODS[0], BRO_STEPS)[0] for env in tasks]


def estimate_ratio(tasks: Mapping[str, Task], pair: Pair) -> Ratio:
    """Return the ratio of the areas of two arms over some tasks."""
    each = list(tasks.values())
    least = floors(tasks)
    arms = contrast(*pair)
    low = high = np.nan
    if len(each[0][ARM]) > 1:
        low, high = bootstrapped(each, lambda drawn: effect(drawn, arms, least))
    return float(np.exp(effect(each, arms, least))), float(np.exp(low)), float(np.exp(high))


def estimate_ratios(tasks: Mapping[str, Task], pair: Pair) -> dict[str, Ratio]:
    """Return the ratios over all tasks and on each task by label, in descending order of tasks' ratios."""
    by_task = {short(env): estimate_ratio({env: task}, pair) for env, task in tasks.items()}
    descending = sorted(by_task.items(), key=lambda item: -item[1][0])
    return {ALL: estimate_ratio(tasks, pair), **dict(descending)}


def format_ratio(found: Ratio) -> str:
    """Return a ratio as text, with its interval if there is one."""
    ratio, low, high = found
    return f"{ratio:.2f}" if np.isnan(low) else f"{ratio:.2f} ({low:.2f} to {high:.2f})"


def by_task(tasks: Mapping[str, Task], ratios: Mapping[str, Ratio], runs: pd.DataFrame, pair: Pair) -> str:
    """Return areas and final returns by seed, and the ratio of the areas, for each task as Markdown."""
    last = runs[runs["steps"] == runs["steps"].max()]
    lines = []
    for env in sorted(tasks, key=lambda env: -ratios[short(env)][0]):
        task = tasks[env]
        rows = last[last["env"] == env]
        cells = [short(env)]
        for arm in pair:
            cells.append(_numbers(task[arm]))
        for arm in pair:
            cells.append(_numbers(rows[rows["arm"] == arm].sort_values("seed")["value"]))
        lines.append([*cells, format_ratio(ratios[short(env)])])
    ours, theirs = pair
    heads = ["task", f"areas of {ours}", f"of {theirs}", f"returns of {ours}", f"of {theirs}", "ratio of mean areas"]
    return table(heads, lines)


def _numbers(values: Sequence[float] | np.ndarray | pd.Series) -> str:
    return ", ".join(f"{value:,.0f}" for value in values)


def over_tasks(tasks: Mapping[str, Task], pair: Pair) -> str:
    """Return the ratios over all tasks, over the tasks without `CHOSEN_ON`, and over all tasks but one, as Markdown."""
    parts = {ALL: dict(tasks)}
    unseen = {env: task for env, task in tasks.items() if env not in CHOSEN_ON}
    parts[f"the {len(unseen)} tasks on which no setting was chosen"] = unseen
    for env in tasks:
        parts[f"without {short(env)}"] = {name: task for name, task in tasks.items() if name != env}
    lines = []
    arms = contrast(*pair)
    for name, part in parts.items():
        chance = np.mean([improvement(*arms(task)) for task in part.values()])
        lines.append([name, format_ratio(estimate_ratio(part, pair)), f"{chance:.2f}"])
    return table([f"tasks, {pair[0]} against {pair[1]}", "ratio of areas", "probability of improvement"], lines)


def final_returns(runs: pd.DataFrame) -> str:
    """Return the interquartile means over tasks of the final returns of each arm."""
    last = runs[runs["steps"] == runs["steps"].max()]
    found = []
    for arm, rows in last.groupby("arm"):
        means = rows.groupby("env")["value"].mean()
        found.append(f"{arm} {iqm(means.to_numpy(), list(means.index)):.3f}")
    return f"interquartile means of the final returns over tasks: {', '.join(found)}"


def draw(runs: pd.DataFrame, ratios: Mapping[str, Ratio], random: Mapping[str, float]) -> plt.Figure:
    """Return the figure: learning curves on each task, and the ratios of areas with their intervals."""
    envs = sorted(runs["env"].unique())
    figure = plt.figure(figsize=(13, 5), layout="constrained")
    left, right = figure.subfigures(1, 2, squeeze=False, width_ratios=[4, 1])[0]
    axes = left.subplots(2, math.ceil(len(envs) / 2), squeeze=False)
    for axis, env in zip(axes.flat, envs, strict=False):
        draw_curves(axis, runs[runs["env"] == env], COLORS)
        axis.axhline(random[env], color="0.6", lw=0.8, ls=":")
        axis.set_title(short(env), fontsize=10)
        axis.xaxis.set_major_formatter(lambda at, _: f"{at / 1_000:.0f}k")
    for axis in axes[:, 0]:
        axis.set_ylabel("evaluation return")
    left.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    axis = right.subplots()
    draw_ratios(axis, dict(ratios), (ALL,))
    axis.set_xscale("log")
    axis.set_xlabel("ratio of areas")
    ticks = [0.25, 1, 4]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    return figure


def read_common_runs(folder: Path) -> tuple[pd.DataFrame, str]:
    """Return the curves of the seeds that all arms have on all tasks, and the arm with which NMER is compared."""
    own = read(folder)
    baseline = str(own["arm"].iloc[0])
    confirmation = read(folder.parent / CONFIRMATION)
    runs = [confirmation[confirmation["arm"] == ARM], own]
    if baseline != UNIFORM:
        runs.append(read(folder.parent / UNIFORM_STUDY))
    return whole_seeds(pd.concat(runs, ignore_index=True), fewest=1), baseline


def make_report(folder: Path) -> Found:
    """Return the tables, and a function that draws the figure."""
    runs, baseline = read_common_runs(folder)
    random = random_returns(folder)
    tasks = group_by_task(runs, random)
    pair = (ARM, baseline)
    ratios = estimate_ratios(tasks, pair)
    parts = [by_task(tasks, ratios, runs, pair), over_tasks(tasks, pair), final_returns(runs)]
    if baseline != UNIFORM:
        parts.insert(2, over_tasks(tasks, (baseline, UNIFORM)))
    missing = missing_runs(folder)
    if missing:
        parts.append(missing)
    else:
        primary = estimate(list(tasks.values()), contrast(*pair), floors(tasks))
        parts.append(
            f"By the decision rule fixed before the first run: {conclusion(primary, baseline)} (p {primary.p:.3f})."
        )
    return "\n\n".join(parts), lambda: draw(runs, ratios, random)


if __name__ == "__main__":
    report("benchmarks.studies.ten_tasks", __doc__, make_report)
