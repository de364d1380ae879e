"""Estimates of stage 1, which chooses a recipe: ``python -m benchmarks.studies.screening benchmarks/data``.

The folder contains the kept runs of `PARTS`. The folder of the first part also contains the returns of random actions:
``python -m benchmarks.learning.random_returns FOLDER/sample_efficiency_screening/random_returns.json ENV ...``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from benchmarks.measure import table
from benchmarks.studies.ratio_report import random_returns
from benchmarks.studies.ratio_statistics import Task, bootstrapped, effect, get_areas, get_floor, log_ratio
from benchmarks.studies.study_curves import read
from benchmarks.studies.study_report import Found, report
from interreplay.experiments.flags.values import select_settings

PARTS = (
    "sample_efficiency_screening",
    "sample_efficiency_two_critics",
    "sample_efficiency_residual",
    "sample_efficiency_second_seed",
    "sample_efficiency_narrow",
)
"""Studies of stage 1; a study that has not begun is left out."""
PRESET = "preset"
"""Baseline arm."""
SEEDS = ((100,), (100, 101))
"""Seeds of each table, which shows the arms that have these seeds on all tasks except `NOT_LEARNED`."""
NOT_LEARNED = "dm_control/quadruped-run-v0"
"""Task in which no arm exceeds random play within 12,000 steps. Estimates without it were added after seed 100."""


def group_areas(runs: pd.DataFrame, random: Mapping[str, float], seeds: Sequence[int]) -> dict[str, Task]:
    """Return the areas of each task by arm, for arms with all seeds; arms that lack a learned task are left out.

    Args:
        runs: Curves as `benchmarks.studies.study_curves.read` returns them.
        random: Return of random actions by environment.
        seeds: Seeds to count.
    """
    tasks: dict[str, Task] = {}
    for env, of_env in runs[runs["seed"].isin(seeds)].groupby("env"):
        arms = {}
        for arm, of_arm in of_env.groupby("arm"):
            if of_arm["seed"].nunique() == len(seeds):
                arms[arm] = get_areas(of_arm, random[env])
        tasks[env] = arms
    learned = [set(task) for env, task in tasks.items() if env != NOT_LEARNED]
    complete = set.intersection(*learned)
    return {env: select_settings(task, complete) for env, task in tasks.items()}


def estimate(tasks: Sequence[Task], arm: str) -> tuple[float, float, float]:
    """Return the ratio of an arm's areas to the preset's, and its interval, NaN with one seed."""

    def effect_of(drawn: Sequence[Task]) -> float:
        return effect(drawn, lambda task: (task[arm], task[PRESET]))

    pairs = [{arm: task[arm], PRESET: task[PRESET]} for task in tasks]
    low = high = math.nan
    if len(tasks[0][arm]) > 1:
        low, high = bootstrapped(pairs, effect_of)
    return math.exp(effect_of(pairs)), math.exp(low), math.exp(high)


def ranked(tasks: Mapping[str, Task]) -> list[str]:
    """Return the arms in descending order of their estimates on the learned tasks."""
    learned = [task for env, task in tasks.items() if env != NOT_LEARNED]
    return sorted(learned[0], key=lambda arm: -estimate(learned, arm)[0])


def estimates(tasks: Mapping[str, Task], arm: str) -> list[str]:
    """Return an arm's estimate on the learned tasks, and on all, as text with intervals."""
    learned = [task for env, task in tasks.items() if env != NOT_LEARNED]
    texts = []
    for chosen in (learned, list(tasks.values())):
        if arm == PRESET or any(arm not in task for task in chosen):
            texts.append("1" if arm == PRESET else "–")
            continue
        ratio, low, high = estimate(chosen, arm)
        texts.append(f"{ratio:.2f}" if math.isnan(low) else f"{ratio:.2f} ({low:.2f} to {high:.2f})")
    return texts


def describe(tasks: Mapping[str, Task]) -> str:
    """Return the mean areas of each arm on each task, and its estimates, as Markdown."""
    rows = []
    for arm in ranked(tasks):
        areas = [f"{round(task[arm].mean()):,}" if arm in task else "–" for task in tasks.values()]
        rows.append([arm, *areas, *estimates(tasks, arm)])
    heads = ["mean area above random play", *map(short, tasks), f"× preset, without {short(NOT_LEARNED)}", "with it"]
    return table(heads, rows)


def short(env: str) -> str:
    """Return the name of an environment without its suite and version."""
    return env.removeprefix("dm_control/").rsplit("-v", 1)[0]


def draw(first: Mapping[str, Task], both: Mapping[str, Task]) -> plt.Figure:
    """Return the figure: ratios to the preset on each learned task with the first seed, and the estimates.

    Args:
        first: Areas of the first seed.
        both: Areas of the arms with both seeds, whose estimates have intervals; {} if there are none.
    """
    learned = {env: task for env, task in first.items() if env != NOT_LEARNED}
    arms = [arm for arm in ranked(first) if arm != PRESET]
    figure, axis = plt.subplots(figsize=(8, 0.4 * len(arms) + 1.6), layout="constrained")
    for place, (env, task) in enumerate(learned.items()):
        ratios = [math.exp(log_ratio(task[arm], task[PRESET], get_floor(task))) for arm in arms]
        axis.plot(ratios, range(len(arms)), "o", color=f"C{place}", alpha=0.7, ms=5, label=short(env))
    learned_in_both = [task for env, task in both.items() if env != NOT_LEARNED]
    for place, arm in enumerate(arms):
        tasks = list(learned.values())
        if learned_in_both and arm in learned_in_both[0]:
            tasks = learned_in_both
        ratio, low, high = estimate(tasks, arm)
        axis.plot([low, high], [place, place], color="0.2", lw=1.5)
        axis.plot(ratio, place, "|", color="0.2", ms=18, mew=2.5)
    axis.axvline(1, color="0.6", lw=0.8, ls=":")
    axis.set_xscale("log")
    ticks = [0.25, 0.5, 1, 2, 4]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_yticks(range(len(arms)), arms)
    axis.invert_yaxis()
    axis.set(xlabel="area above random play, relative to the preset; bars: mean over tasks")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def make_report(folder: Path) -> Found:
    """Return a table for each entry of `SEEDS` that has arms, and a function that draws the figure."""
    runs = pd.concat([read(folder / part) for part in PARTS if (folder / part).exists()])
    random = random_returns(folder / PARTS[0])
    by_seeds = {seeds: group_areas(runs, random, seeds) for seeds in SEEDS}
    complete = {}
    for seeds, tasks in by_seeds.items():
        if any(len(task) > 1 for task in tasks.values()):
            complete[seeds] = tasks
    texts = [f"Seeds {', '.join(map(str, seeds))}\n\n{describe(tasks)}" for seeds, tasks in complete.items()]
    first, both = SEEDS
    return "\n\n".join(texts), lambda: draw(complete[first], complete.get(both, {}))


if __name__ == "__main__":
    report("benchmarks.studies.screening", __doc__, make_report)
