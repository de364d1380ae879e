"""Read and draw the learning curves of a study's runs (thin lines: individual seeds; thick lines: means)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.ndimage import uniform_filter1d

from interreplay.experiments.report.reading import read_results
from interreplay.experiments.studies.study import State, TrialFolder


def read(folder: Path, column: str = "evaluation", arms_by: str | None = None) -> pd.DataFrame:
    """Return the curves of the finished runs, one row per value.

    Columns are ``env``, ``arm``, ``seed``, ``minutes`` (of the whole run), ``steps`` and ``value``.

    Args:
        folder: Folder of the runs, as written by Tune or `benchmarks.keep_study`.
        column: ``"evaluation"`` or ``"training"`` returns.
        arms_by: Name of the setting that distinguishes arms, such as ``"trainer"``; None reads them from run names.
    """
    parts = []
    for run in sorted(path.parent for path in folder.glob("*/params.json")):
        named = re.search(r"_([^_]+)_s(\d+)$", run.name)
        if named is None or not ended(run):
            continue
        settings = json.loads((run / "params.json").read_text())
        env = settings["env"]
        arm = settings[arms_by] if arms_by else named[1]
        rows = read_results(run)[0].dropna(subset=[column])
        constants = {"env": env, "arm": arm, "seed": int(named[2])}
        constants["minutes"] = TrialFolder(run).status()["seconds"] / 60
        parts.append(pd.DataFrame(constants | {"steps": rows["env_steps"], "value": rows[column]}))
    if not parts:
        raise SystemExit(f"{folder} contains no finished run")
    return pd.concat(parts, ignore_index=True)


def ended(run: Path) -> bool:
    """Return whether a run is finished."""
    return TrialFolder(run).status()["state"] == State.FINISHED


def each_run(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Return the curves of one arm in order of seeds."""
    return [run.sort_values("steps") for _, run in rows.groupby("seed")]


def mean_curve(runs: list[pd.DataFrame], smooth: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return steps ``(m,)`` and the mean of the runs at these steps, as a moving average of `smooth` points."""
    steps = runs[0]["steps"].to_numpy(float)
    values = np.mean([np.interp(steps, run["steps"], run["value"]) for run in runs], axis=0)
    return steps, uniform_filter1d(values, smooth, mode="nearest")


def draw_curves(axis: Axes, rows: pd.DataFrame, colors: Mapping[str, str], smooth: int = 1) -> None:
    """Draw the arms of one task.

    Args:
        axis: Axis to draw on.
        rows: Curves as `read` returns them.
        colors: Colors by arm.
        smooth: Number of points in a moving average; if above 1, single runs are not drawn.
    """
    for arm, color in colors.items():
        runs = each_run(rows[rows["arm"] == arm])
        if not runs:
            continue
        for run in runs if smooth == 1 else ():
            axis.plot(run["steps"], run["value"], color=color, lw=0.6, alpha=0.5)
        axis.plot(*mean_curve(runs, smooth), color=color, lw=2.2, label=arm)
    axis.set_xlabel("env steps")
    axis.spines[["top", "right"]].set_visible(False)


def draw_ratios(axis: Axes, ratios: dict[str, tuple[float, float, float]], strong: Collection[str]) -> None:
    """Draw ratios of areas with their intervals, from top to bottom.

    Args:
        axis: Axis to draw on.
        ratios: Ratios by label, each with the bounds of its interval.
        strong: Labels of the primary effects.
    """
    for place, (name, (ratio, low, high)) in enumerate(reversed(ratios.items())):
        color = "#c65d21" if name in strong else "0.5"
        axis.plot([low, high], [place, place], color=color, lw=2)
        axis.plot(ratio, place, "o", color=color)
    axis.set_yticks(range(len(ratios)), list(ratios)[::-1], fontsize=8)
    axis.axvline(1, color="0.3", lw=1)
    axis.set_xlabel("area under the curve, ratio (95 % interval)")
    axis.spines[["top", "right"]].set_visible(False)
