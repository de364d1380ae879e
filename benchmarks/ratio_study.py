"""What a study of update ratios found, in tables and a figure: ``python -m benchmarks.ratio_study FOLDER``.

FOLDER holds the runs, as Tune or `benchmarks.keep_study` left them, and what random actions return:
``python -m benchmarks.random_returns FOLDER/random_returns.json ENV ...``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import FixedLocator, NullLocator

from benchmarks.measure import table
from benchmarks.ratio_statistics import ARMS, CONTRASTS, Estimate, Task, areas_of, bootstrapped, estimate, holm
from benchmarks.ratio_statistics import interaction as interaction_of
from benchmarks.study_curves import draw_curves, draw_ratios, read
from benchmarks.study_report import Found, tell

CLAIMS = {"TD3": 1.94, "SAC": 1.29}
"""Sander et al. 2022 (arXiv:2205.09117): NMER's return beside uniform replay's."""
COLORS = dict(zip(ARMS, ("#9aa5b1", "#3e4c59", "#f0b429", "#c65d21"), strict=True))


def tasks_of(found: pd.DataFrame, random: Mapping[str, float]) -> dict[str, Task]:
    """Return the areas of each task, by arm and in the order of seeds."""
    tasks: dict[str, Task] = {}
    for env, rows in found.groupby("env"):
        arms = {}
        for arm, runs in rows.groupby("arm"):
            arms[str(arm)] = areas_of(runs, random[str(env)])
        tasks[str(env)] = arms
    return tasks


def effects(tasks: Sequence[Task]) -> dict[str, Estimate]:
    """Return the two primary effects, p-values by Holm, and the secondary ones without correction."""
    found = {name: estimate(tasks, contrast) for name, contrast in CONTRASTS.items()}
    corrected = holm({name: found[name].p for name in ("A", "B")})
    found |= {name: Estimate(e.ratio, e.low, e.high, corrected.get(name, e.p)) for name, e in found.items()}
    low, high = np.exp(bootstrapped(tasks, interaction_of))
    return found | {"20 against 1": Estimate(float(np.exp(interaction_of(tasks))), float(low), float(high))}


def describe(tasks: Mapping[str, Task], found: Mapping[str, Estimate]) -> str:
    """Return the areas of every seed, and the effects, as markdown."""
    rows = [
        [env, arm, ", ".join(f"{value:,.0f}" for value in areas), f"{areas.mean():,.0f}"]
        for env, arms in tasks.items()
        for arm, areas in arms.items()
    ]
    named = {"A": "A: NMER-20 : Uniform at the better ratio", "B": "B: NMER-20 : Uniform-20"}
    named |= {"at 1": "NMER-1 : Uniform-1", "20 against 1": "interaction with the ratio"}
    lines = [
        [named[name], f"{e.ratio:.2f}", f"{e.low:.2f} to {e.high:.2f}", "–" if np.isnan(e.p) else f"{e.p:.3f}"]
        for name, e in found.items()
    ]
    areas = table(["task", "arm", "area above random of every seed", "mean"], rows)
    return areas + "\n\n" + table(["effect", "ratio", "95 % interval", "p (Holm for A and B)"], lines)


def draw(found: pd.DataFrame, effects: Mapping[str, Estimate], random: Mapping[str, float], trainer: str) -> plt.Figure:
    """Return the figure: a learning curve per task, every seed thin, and the effects with their intervals."""
    envs = list(dict.fromkeys(found["env"]))
    figure, axes = plt.subplots(1, len(envs) + 1, figsize=(4 * len(envs) + 4.4, 3.6), layout="constrained")
    for axis, env in zip(axes, envs, strict=False):
        draw_curves(axis, found[found["env"] == env], COLORS)
        axis.axhline(random[env], color="0.6", lw=0.8, ls=":")
        axis.set_title(env.removeprefix("dm_control/"))
    axes[0].set_ylabel("evaluation return")
    axes[0].legend(frameon=False, fontsize=8)
    _draw_effects(axes[-1], effects, trainer)
    return figure


def _draw_effects(axis: plt.Axes, effects: Mapping[str, Estimate], trainer: str) -> None:
    names = {
        "A": "A: NMER at 20 against\nUniform at its better ratio",
        "B": "B: both at 20",
        "at 1": "both at 1",
        "20 against 1": "effect at 20\nover effect at 1",
    }
    ratios = {names[name]: (e.ratio, e.low, e.high) for name, e in effects.items()}
    draw_ratios(axis, ratios, strong=(names["A"], names["B"]))
    axis.axvline(CLAIMS[trainer], color="0.3", lw=1, ls="--")
    axis.text(CLAIMS[trainer], len(effects) - 0.45, " as published", fontsize=7, color="0.3")
    axis.set(xscale="log", ylim=(-0.6, len(effects) - 0.2))
    axis.xaxis.set_major_locator(FixedLocator([0.25, 0.5, 0.7, 1, 1.4, 2, 3, 5]))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter("{x:g}")


def found_in(folder: Path) -> Found:
    """Return the tables, and what draws the figure."""
    found = read(folder)
    played = json.loads((folder / "random_returns.json").read_text())
    random = {env: value["mean"] for env, value in played.items()}
    tasks = tasks_of(found, random)
    found_effects = effects(list(tasks.values()))
    trainer = json.loads(next(folder.glob("*/params.json")).read_text())["trainer"]
    return describe(tasks, found_effects), lambda: draw(found, found_effects, random, trainer)


if __name__ == "__main__":
    tell("benchmarks.ratio_study", __doc__, found_in)
