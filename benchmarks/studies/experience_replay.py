"""Tables and figure of the experience-replay study: ``python -m benchmarks.studies.experience_replay FOLDER``.

FOLDER contains the runs, as written by Tune or `benchmarks.keep_study`. Only finished runs count. FOLDER also contains
the returns of random actions: ``python -m benchmarks.learning.random_returns FOLDER/random_returns.json ENV ...``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib import ticker

from benchmarks.measure import table
from benchmarks.studies.ratio_report import random_returns
from benchmarks.studies.ratio_statistics import improvement
from benchmarks.studies.replay_explained import CORRELATION, ERROR, explained, ratio
from benchmarks.studies.study_curves import draw_curves, ended
from benchmarks.studies.study_report import Found, report
from interreplay.experiments.report.reading import REPLAY, read_results

MEASURES = ("td_error_mean", "state_cosine", "time_gap", "age_ess", "same_episode_share")
COLORS = {
    "Online-1": "#9aa5b1",
    "Last-64": "#3e4c59",
    "Uniform": "#1F83C4",
    "PER": "#D55E00",
    "CER": "#009E73",
    "HER": "#CC79A7",
}


def get_arm_name(settings: Mapping[str, Any]) -> str:
    """Return the name of an arm in the study file, without the capacity."""
    if settings["buffer"] == "Online":
        return "Online-1" if settings["train_batch_size"] == 1 else "Last-64"
    return str(settings["buffer"])


def read_runs(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table with a row per run, and a table with a row per evaluation.

    Returns:
        The first table has columns ``task``, ``arm``, ``capacity``, ``seed``, ``area`` (mean evaluation return above
        random actions) and batch measures (means over the run). The second has ``steps`` and ``value`` in place of
        ``area`` and measures.
    """
    random = random_returns(folder)
    runs = []
    evaluations = []
    for run in sorted(path.parent for path in folder.glob("*/params.json")):
        settings = json.loads((run / "params.json").read_text())
        results = read_results(run)[0]
        found = results.dropna(subset=["evaluation"])
        if not len(found) or not ended(run):
            continue
        key = {"task": settings["env"], "arm": get_arm_name(settings)}
        key |= {"capacity": settings["buffer_size"], "seed": settings["seed"]}
        measures = {name: results[f"{REPLAY}{name}"].mean() for name in MEASURES if f"{REPLAY}{name}" in results}
        excess = results[f"{REPLAY}state_cosine"] - results[f"{REPLAY}state_cosine_expected"]
        area = found["evaluation"].mean() - random[settings["env"]]
        runs.append(key | {"area": area, CORRELATION: excess.mean()} | measures)
        pairs = zip(found["env_steps"], found["evaluation"], strict=True)
        evaluations += [key | {"steps": steps, "value": value} for steps, value in pairs]
    if not runs:
        raise SystemExit(f"{folder} contains no finished run with an evaluation")
    return pd.DataFrame(runs), pd.DataFrame(evaluations)


def areas_table(runs: pd.DataFrame) -> str:
    """Return the area of every seed, its ratio to Uniform and the batch measures, as markdown."""
    rows = []
    for (task, capacity, arm), found in runs.groupby(["task", "capacity", "arm"]):
        same = runs[(runs["task"] == task) & (runs["arm"] == "Uniform") & (runs["capacity"] == capacity)]["area"]
        areas = found.sort_values("seed")["area"]
        better = arm != "Uniform" and len(same) and same.mean() > 0
        rows.append(
            [
                task,
                arm,
                f"{capacity:,}",
                ", ".join(f"{area:,.0f}" for area in areas),
                f"{areas.mean():,.0f}",
                str(ratio(areas, same)) if better else "–",
                f"{improvement(areas, same):.2f}" if better else "–",
                *(f"{found[name].mean():.2f}" for name in (CORRELATION, ERROR)),
            ]
        )
    heads = ["task", "arm", "capacity", "area above random of every seed", "mean", "× Uniform (95 %)"]
    return table([*heads, "P(better than Uniform)", "excess of \\|cos\\|", "\\|TD error\\|"], rows)


def explanation_table(runs: pd.DataFrame, resamples: int = 2_000) -> str:
    """Return the rank correlations of area and batch measures, over runs with batches of 64, as markdown."""
    rows = []
    for task, found in runs[runs["arm"] != "Online-1"].groupby("task"):
        if len(found["arm"].unique()) > 1 and len(found) > 3:
            cells = [(CORRELATION, None), (ERROR, None), (CORRELATION, ERROR), (ERROR, CORRELATION)]
            rows.append([task, len(found), *(str(explained(found, name, held, resamples)) for name, held in cells)])
    heads = ["task", "runs", "area ~ excess of \\|cos\\|", "area ~ \\|TD error\\|"]
    return table([*heads, "first, second held fixed", "second, first held fixed"], rows)


def capacities_table(runs: pd.DataFrame) -> str:
    """Return Uniform's areas with smaller buffers relative to the largest, with 95 % intervals, as markdown."""
    uniform = runs[runs["arm"] == "Uniform"]
    rows = []
    for (task, capacity), found in uniform.groupby(["task", "capacity"]):
        of = uniform[uniform["task"] == task]
        if capacity < (largest := of["capacity"].max()):
            whole = of[of["capacity"] == largest].sort_values("seed")["area"]
            rows.append([task, f"{capacity:,}", str(ratio(found.sort_values("seed")["area"], whole))])
    return table(["task", "capacity", "Uniform's area, × that with the largest (95 %)"], rows)


def draw(runs: pd.DataFrame, evaluations: pd.DataFrame) -> plt.Figure:
    """Return the figure: learning curves, areas by capacity, by correlation and by error, a column per task."""
    tasks = list(dict.fromkeys(runs["task"]))
    figure, axes = plt.subplots(4, len(tasks), figsize=(3.6 * len(tasks), 11.5), layout="constrained", squeeze=False)
    for column, task in zip(axes.T, tasks, strict=True):
        of = runs[runs["task"] == task]
        curves = evaluations[evaluations["task"] == task]
        column[0].set_title(task.removeprefix("interreplay/"))
        draw_curves(column[0], curves[curves["capacity"] == of["capacity"].max()], COLORS)
        column[0].xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
        _draw_capacities(column[1], of)
        _draw_measures(column[2], column[3], of)
    for axis, label in zip(axes[:, 0], ["evaluation return", *["area above random"] * 3], strict=True):
        axis.set_ylabel(label)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
    handles = [plt.Line2D([], [], color=COLORS[arm], lw=2, label=arm) for arm in COLORS if arm in set(runs["arm"])]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)
    return figure


def _draw_capacities(axis: plt.Axes, found: pd.DataFrame) -> None:
    if found["capacity"].nunique() == 1:
        axis.set_axis_off()
        return
    for arm, runs in found.groupby("arm"):
        by = runs.groupby("capacity")["area"]
        means = by.mean()
        spread = by.std().fillna(0.0) / np.sqrt(by.count())
        axis.errorbar(means.index, means, 1.96 * spread, color=COLORS[str(arm)], marker="o", ms=4, lw=1.5, capsize=2)
    axis.set(xlabel="capacity", xscale="log")


def _draw_measures(correlation: plt.Axes, errors: plt.Axes, found: pd.DataFrame) -> None:
    for arm, runs in found.groupby("arm"):
        for axis, measure in ((correlation, CORRELATION), (errors, ERROR)):
            axis.scatter(runs[measure], runs["area"], s=14, color=COLORS[str(arm)], alpha=0.7, lw=0)
    correlation.set(xlabel="excess of |cos| in a batch")
    correlation.xaxis.set_major_locator(ticker.MaxNLocator(4))
    errors.set(xlabel="mean |TD error| when drawn", xscale="log")
    errors.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 4, 7)))
    errors.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    errors.xaxis.set_minor_formatter(ticker.NullFormatter())


def make_report(folder: Path) -> Found:
    """Return the tables, and a function that draws the figure."""
    runs, evaluations = read_runs(folder)
    afterwards = explanation_table(runs[runs["capacity"] == runs["capacity"].max()])
    parts = [
        areas_table(runs),
        explanation_table(runs),
        "Largest capacity only (post hoc):",
        afterwards,
    ]
    return "\n\n".join([*parts, capacities_table(runs)]), lambda: draw(runs, evaluations)


if __name__ == "__main__":
    report("benchmarks.studies.experience_replay", __doc__, make_report)
