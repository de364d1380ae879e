"""Reports of studies of critics and update ratios: tables of all seeds and of effects, and a figure."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import FixedLocator, NullLocator

from benchmarks.measure import table
from benchmarks.studies.ratio_statistics import (
    Contrast,
    Estimate,
    Task,
    bootstrapped,
    conclusion,
    effect,
    get_areas,
    improvement,
)
from benchmarks.studies.study_curves import draw_curves, draw_ratios, each_run, ended
from interreplay.experiments.report.reading import list_planned_runs

CLAIMS = {"TD3": 1.94, "SAC": 1.29}
"""Sander et al. 2022 (arXiv:2205.09117): NMER's return divided by that of uniform replay."""


def random_returns(folder: Path) -> dict[str, float]:
    """Return the mean return of random actions in each task, from a study's folder."""
    played = json.loads((folder / "random_returns.json").read_text())
    return {env: value["mean"] for env, value in played.items()}


def whole_seeds(found: pd.DataFrame, fewest: int = 2) -> pd.DataFrame:
    """Return the rows of the seeds that are finished in every task and arm; a study runs one seed after another.

    Args:
        found: Learning curves, as `study_curves.read` returns them.
        fewest: Smallest number of complete seeds; an interval requires two.

    Raises:
        SystemExit: Fewer than `fewest` seeds are complete.
    """
    runs = found.drop_duplicates(["env", "arm", "seed"])
    cells = runs["env"].nunique() * runs["arm"].nunique()
    whole = [seed for seed, count in runs["seed"].value_counts().items() if count == cells]
    if len(whole) < fewest:
        raise SystemExit(
            f"{len(whole)} seeds are finished in all {cells} pairs of task and arm; expected at least {fewest}"
        )
    return found[found["seed"].isin(whole)]


def group_by_task(found: pd.DataFrame, random: Mapping[str, float]) -> dict[str, Task]:
    """Return the areas of each task by arm, in order of seeds; `found` is the result of `whole_seeds`."""
    tasks: dict[str, Task] = {}
    for env, rows in found.groupby("env"):
        tasks[str(env)] = {str(arm): get_areas(runs, random[str(env)]) for arm, runs in rows.groupby("arm")}
    return tasks


def apply_rule(folder: Path, primary: Estimate, claims: Mapping[str, float]) -> str:
    """Return the conclusion by the rule fixed before the first run, or a note that runs are missing."""
    return missing_runs(folder) or f"By the decision rule fixed before the first run: {conclusion(primary, claims)}."


def missing_runs(folder: Path) -> str:
    """Return a note that runs of a study are missing, "" if all are finished."""
    names = list_planned_runs(folder)
    left = [name for name in names if not ((folder / name).is_dir() and ended(folder / name))]
    return f"{len(left)} of {len(names)} runs have not finished; the decision requires all of them." if left else ""


def areas_table(found: pd.DataFrame, tasks: Mapping[str, Task]) -> str:
    """Return every seed's area, the last three evaluations and the minutes of each arm, as markdown."""
    lines = []
    for env, arms in tasks.items():
        for arm, areas in arms.items():
            runs = each_run(found[(found["env"] == env) & (found["arm"] == arm)])
            end = np.mean([run["value"].iloc[-3:].mean() for run in runs])
            took = np.median([run["minutes"].iloc[0] for run in runs])
            each = ", ".join(f"{value:,.0f}" for value in areas)
            lines.append([env, arm, each, f"{areas.mean():,.0f}", f"{end:,.0f}", f"{took:.0f}"])
    heads = ["area above random of every seed", "mean", "last three evaluations", "minutes (median)"]
    return table(["task", "arm", *heads], lines)


def effects_table(
    effects: Mapping[str, Estimate], contrasts: Mapping[str, Contrast], tasks: Sequence[Task], correction: str = ""
) -> str:
    """Return effects with their intervals as markdown.

    Args:
        effects: Effects by displayed name.
        contrasts: Contrasts of the effects that compare two arms, by the same names; the probability of improvement
            is their mean over tasks.
        tasks: Areas of each task.
        correction: Note on the p-values in the head of their column.
    """
    lines = []
    for name, e in effects.items():
        contrast = contrasts.get(name)
        better = np.mean([improvement(*contrast(task)) for task in tasks]) if contrast else np.nan
        p = "–"
        if not np.isnan(e.p):
            p = f"{e.p:.3f}" if e.p >= 0.001 else "< 0.001"
        chance = "–" if np.isnan(better) else f"{better:.2f}"
        lines.append([name, f"{e.ratio:.2f}", f"{e.low:.2f} to {e.high:.2f}", p, chance])
    return table(["effect", "ratio", "95 % interval", f"p{correction}", "P(improvement)"], lines)


def make_task_table(tasks: Mapping[str, Task], contrasts: Mapping[str, Contrast]) -> str:
    """Return the effects in each single task and in all tasks but one, with 95 % intervals, as markdown.

    Args:
        tasks: Two or more tasks by name.
        contrasts: Contrasts by displayed name.
    """
    parts = {env: [task] for env, task in tasks.items()}
    for env in tasks:
        parts[f"without {env}"] = [task for name, task in tasks.items() if name != env]
    lines = []
    for name, part in parts.items():
        lines.append([name, *(_ratio(part, contrast) for contrast in contrasts.values())])
    title = "Each task (post hoc); (–): every draw of seeds is at the floor:"
    return title + "\n\n" + table(["tasks", *contrasts], lines)


def _ratio(tasks: Sequence[Task], contrast: Contrast) -> str:
    low, high = np.exp(bootstrapped(tasks, lambda drawn: effect(drawn, contrast)))
    interval = "–" if np.isnan(low) else f"{low:.2f} to {high:.2f}"
    return f"{np.exp(effect(tasks, contrast)):.2f} ({interval})"


def draw(
    found: pd.DataFrame,
    effects: Mapping[str, Estimate],
    random: Mapping[str, float],
    colors: Mapping[str, str],
    strong: Collection[str],
    claim: float,
) -> plt.Figure:
    """Return the figure: learning curves per task (thin lines: individual seeds), and the effects with intervals.

    Args:
        found: Learning curves, as `study_curves.read` returns them.
        effects: Effects by displayed name, from top to bottom.
        random: Mean return of random actions by task.
        colors: Colors by arm.
        strong: Names of the primary effects.
        claim: Published ratio.
    """
    envs = list(dict.fromkeys(found["env"]))
    figure, axes = plt.subplots(1, len(envs) + 1, figsize=(4 * len(envs) + 4.4, 3.6), layout="constrained")
    for axis, env in zip(axes, envs, strict=False):
        draw_curves(axis, found[found["env"] == env], colors)
        axis.axhline(random[env], color="0.6", lw=0.8, ls=":")
        axis.set_title(env.removeprefix("dm_control/"))
    axes[0].set_ylabel("evaluation return")
    axes[0].legend(frameon=False, fontsize=8)
    _draw_effects(axes[-1], effects, strong, claim)
    return figure


def _draw_effects(axis: plt.Axes, effects: Mapping[str, Estimate], strong: Collection[str], claim: float) -> None:
    draw_ratios(axis, {name: (e.ratio, e.low, e.high) for name, e in effects.items()}, strong)
    axis.axvline(claim, color="0.3", lw=1, ls="--")
    axis.text(claim, len(effects) - 0.45, " as published", fontsize=7, color="0.3")
    axis.set(xscale="log", ylim=(-0.6, len(effects) - 0.2))
    axis.xaxis.set_major_locator(FixedLocator([0.25, 0.5, 0.7, 1, 1.4, 2, 3, 5]))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter("{x:g}")
