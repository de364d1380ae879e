"""What interpolation adds to a stable critic, in tables and a figure: ``python -m benchmarks.critic_study FOLDER``.

FOLDER holds the runs of ``studies/sac_stable_critic.yaml``, as Tune or `benchmarks.keep_study` left them. Those of
``studies/sac_nmer_ratio.yaml``, two arms of which are shown, are beside it in a folder ``sac_nmer_ratio``, with what
random actions return.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from benchmarks.ratio_report import (
    CLAIMS,
    areas_table,
    by_task_table,
    draw,
    effects_table,
    random_returns,
    reading_of,
    tasks_of,
    whole_seeds,
)
from benchmarks.ratio_statistics import Contrast, estimate
from benchmarks.study_curves import read
from benchmarks.study_report import Found, tell

BESIDE = ("Uniform-20", "NMER-20")
"""Arms of the study beside."""
COLORS = {"Uniform-20": "#3e4c59", "NMER-20": "#c65d21", "NaiveMixup": "#8d6cab", "Uniform-LN": "#2f7ed8"}
COLORS |= {"NMER-LN": "#f0b429"}
PAIRS = {
    "NMER against Uniform,\nboth with LayerNorm": ("NMER-LN", "Uniform-LN"),
    "LayerNorm against none,\nboth Uniform": ("Uniform-LN", "Uniform-20"),
    "NMER against NaiveMixup": ("NMER-20", "NaiveMixup"),
    "NaiveMixup against Uniform": ("NaiveMixup", "Uniform-20"),
}
"""What is compared; the first is what the study is about."""


def contrast(ours: str, theirs: str) -> Contrast:
    """Return what takes two arms from a task."""
    return lambda task: (task[ours], task[theirs])


def runs_of(folder: Path) -> pd.DataFrame:
    """Return the curves of the study's runs and of the two arms beside it, seeds that are whole."""
    own, beside = read(folder), read(folder.parent / "sac_nmer_ratio")
    beside = beside[beside["arm"].isin(BESIDE) & beside["seed"].isin(own["seed"])]
    return whole_seeds(pd.concat([own, beside], ignore_index=True))


def found_in(folder: Path) -> Found:
    """Return the tables, and what draws the figure."""
    found, random = runs_of(folder), random_returns(folder.parent / "sac_nmer_ratio")
    tasks = tasks_of(found, random)
    effects = {name: estimate(list(tasks.values()), contrast(*pair)) for name, pair in PAIRS.items()}
    primary, *_ = PAIRS
    lines = {name.replace("\n", " "): effect for name, effect in effects.items()}
    contrasts = {name.replace("\n", " "): contrast(*pair) for name, pair in PAIRS.items()}
    parts = [areas_table(found, tasks), effects_table(lines, contrasts, list(tasks.values()))]
    parts += [reading_of(folder, effects[primary], {"SAC": CLAIMS["SAC"]}), by_task_table(tasks, contrasts)]
    return "\n\n".join(parts), lambda: draw(found, effects, random, COLORS, (primary,), CLAIMS["SAC"])


if __name__ == "__main__":
    tell("benchmarks.critic_study", __doc__, found_in)
