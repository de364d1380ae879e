"""Compare the preset with published results: ``python -m benchmarks.studies.published_comparison FOLDER``.

FOLDER contains runs of ``studies/sample_efficiency_confirmation.yaml`` or ``sample_efficiency_anchors.yaml``. Published
results are means over seeds, so the interquartile mean (IQM) is taken over tasks, of ours as of theirs. Seeds that some
tasks lack are listed only.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import trim_mean

from benchmarks.measure import table
from benchmarks.studies.screening import short
from benchmarks.studies.study_curves import draw_curves, read
from benchmarks.studies.study_report import Found, report
from interreplay.experiments.report.published import published_curves

ARM = "nmer-layer-norm"
METHODS = ("BRO (ratio 10)", "FoG")
STEPS = (25_000, 50_000, 100_000)
"""Env steps of the comparison, as far as the runs reach."""
SCALES = {"HalfCheetah-v5": 10_000.0}
"""Returns that count as 1 in the interquartile mean; 1,000, the largest possible return, in the control suite."""
COLORS = {ARM: "#c65d21", METHODS[0]: "#33658a", METHODS[1]: "0.45"}
DRAWS = 10_000
APART = 0.024
"""Distance between published points of the same step, as a share of the last step."""


def find_published(env: str, method: str, steps: int) -> tuple[float, float, int]:
    """Return a published mean, its standard deviation and the number of seeds; NaN if there is none."""
    curves = published_curves(env)
    found = curves[(curves["method"] == method) & (curves["env_steps"] == steps)]
    if found.empty:
        return float("nan"), float("nan"), 0
    row = found.iloc[0]
    return float(row["mean"]), float(row["sd"]), int(row["seeds"])


def iqm(means: np.ndarray, envs: Sequence[str]) -> np.ndarray:
    """Return the interquartile means ``(...)`` over tasks of means ``(..., tasks)``, each divided by its scale."""
    scales = np.array([SCALES.get(env, 1_000.0) for env in envs])
    return np.asarray(trim_mean(means / scales, 0.25, axis=-1))


def difference(own: dict[str, np.ndarray], method: str, steps: int) -> tuple[float, float, float]:
    """Return our IQM after `steps` minus the published one with its 95 % interval, NaN if a task has one seed only.

    Our seeds are resampled within tasks. Published means vary by their standard error.
    """
    envs = list(own)
    point = iqm(get_means(own), envs) - iqm(np.array([find_published(env, method, steps)[0] for env in envs]), envs)
    if min(map(len, own.values())) == 1:
        return float(point), float("nan"), float("nan")
    rng = np.random.default_rng(0)
    ours = np.empty((DRAWS, len(envs)))
    theirs = np.empty((DRAWS, len(envs)))
    for i, env in enumerate(envs):
        mean, sd, seeds = find_published(env, method, steps)
        ours[:, i] = rng.choice(own[env], (DRAWS, len(own[env]))).mean(axis=1)
        theirs[:, i] = rng.normal(mean, sd / np.sqrt(seeds), DRAWS)
    low, high = np.quantile(iqm(ours, envs) - iqm(theirs, envs), (0.025, 0.975))
    return float(point), float(low), float(high)


def get_means(own: dict[str, np.ndarray]) -> np.ndarray:
    """Return our mean return on each task ``(tasks,)``."""
    return np.array([returns.mean() for returns in own.values()])


def decision(value: float, mean: float, sd: float) -> str:
    """Return the decision of ``sample_efficiency_anchors.yaml`` about one task."""
    if abs(value - mean) <= sd:
        return "level"
    return "ahead" if value > mean else "behind"


def describe(own: dict[str, np.ndarray], steps: int) -> str:
    """Return the returns after `steps` on each task and the IQMs as Markdown.

    The last column compares our mean with that of the first of `METHODS` plus or minus its standard deviation.
    """
    rows = []
    for env, returns in own.items():
        cells = [short(env), f"{returns.mean():,.0f}", ", ".join(f"{value:,.0f}" for value in returns)]
        for method in METHODS:
            mean, sd, seeds = find_published(env, method, steps)
            cells.append(f"{mean:,.0f} ± {sd:,.0f} ({seeds})")
        mean, sd, _ = find_published(env, METHODS[0], steps)
        rows.append([*cells, decision(returns.mean(), mean, sd)])
    envs = list(own)
    cells = ["IQM over tasks", f"{iqm(get_means(own), envs):.3f}", ""]
    sentences = []
    for method in METHODS:
        published = np.array([find_published(env, method, steps)[0] for env in envs])
        cells.append(f"{iqm(published, envs):.3f}")
        point, low, high = difference(own, method, steps)
        interval = "" if np.isnan(low) else f" ({low:+.3f} to {high:+.3f})"
        sentences.append(f"IQM of {ARM} minus that of {method}: {point:+.3f}{interval}")
    heads = [f"return after {steps:,} env steps", ARM, "by seed"]
    heads += [f"{method}, mean ± sd (seeds)" for method in METHODS]
    heads.append(f"compared with {METHODS[0]}")
    return "\n\n".join([table(heads, [*rows, [*cells, ""]]), *sentences])


def draw(runs: pd.DataFrame) -> plt.Figure:
    """Return the figure: our curves on each task, and published means with their standard deviations."""
    envs = sorted(runs["env"].unique(), key=short)
    rows = 2 if len(envs) > 4 else 1
    figure, axes = plt.subplots(
        rows, -(-len(envs) // rows), figsize=(12, 2.5 * rows), layout="constrained", squeeze=False
    )
    for axis in axes.flat[len(envs) :]:
        axis.remove()
    steps = compared_steps(runs)
    shift = APART * runs["steps"].max()
    for axis, env in zip(axes.flat, envs, strict=False):
        draw_curves(axis, runs[runs["env"] == env], {ARM: COLORS[ARM]})
        for place, method in enumerate(METHODS):
            points = np.array([find_published(env, method, at)[:2] for at in steps])
            label = f"{method}, published mean ± standard deviation"
            axis.errorbar(
                np.array(steps) + shift * place,
                *points.T,
                color=COLORS[method],
                fmt="o",
                ms=4,
                lw=1.4,
                capsize=3,
                label=label,
            )
        axis.set_title(short(env), fontsize=10)
        axis.set_ylim(bottom=0)
        axis.xaxis.set_major_formatter(lambda at, _: f"{at / 1_000:.0f}k")
    for axis in axes[:, 0]:
        axis.set_ylabel("evaluation return")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def compared_steps(runs: pd.DataFrame) -> list[int]:
    """Return which of `STEPS` the runs reach."""
    return [steps for steps in STEPS if steps <= runs["steps"].max()]


def split_by_completeness(runs: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the runs with seeds that all tasks have, and the other runs."""
    tasks = runs.groupby("seed")["env"].nunique()
    complete = runs["seed"].isin(tasks.index[tasks == runs["env"].nunique()])
    return runs[complete], runs[~complete]


def make_report(folder: Path) -> Found:
    """Return the tables of finished runs, and a function that draws the figure."""
    runs = read(folder)
    counted, others = split_by_completeness(runs[runs["arm"] == ARM])
    parts = []
    for steps in compared_steps(runs):
        by_env = counted[counted["steps"] == steps].groupby("env")["value"]
        parts.append(describe({str(env): returns.to_numpy(float) for env, returns in by_env}, steps))
    for row in others[others["steps"] == runs["steps"].max()].itertuples():
        parts.append(f"not counted: {short(row.env)}, seed {row.seed}: {row.value:,.0f} after {row.steps:,.0f} steps")
    return "\n\n".join(parts), lambda: draw(counted)


if __name__ == "__main__":
    report("benchmarks.studies.published_comparison", __doc__, make_report)
