"""Reports of studies that compare pairs of arms; some arms are from another study."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import pandas as pd

from benchmarks.studies.ratio_report import (
    CLAIMS,
    areas_table,
    draw,
    effects_table,
    group_by_task,
    make_task_table,
    whole_seeds,
)
from benchmarks.studies.ratio_statistics import Contrast, Estimate, estimate
from benchmarks.studies.study_curves import read
from benchmarks.studies.study_report import Found


def read_with_arms(folder: Path, other: str, arms: Collection[str]) -> pd.DataFrame:
    """Return the curves of a study's complete seeds, with some arms of another study in a neighboring folder."""
    own = read(folder)
    others = read(folder.parent / other)
    others = others[others["arm"].isin(arms) & others["seed"].isin(own["seed"])]
    return whole_seeds(pd.concat([own, others], ignore_index=True))


def contrast(ours: str, theirs: str) -> Contrast:
    """Return a function that takes two arms from a task."""
    return lambda task: (task[ours], task[theirs])


def compared(
    found: pd.DataFrame,
    random: Mapping[str, float],
    pairs: Mapping[str, tuple[str, str]],
    colors: Mapping[str, str],
    conclusion: Callable[[Estimate], str],
) -> Found:
    """Return the tables, and a function that draws the figure.

    Args:
        found: Learning curves, as `read_with_arms` returns them.
        random: Mean return of random actions by task.
        pairs: Pairs of arms by the name of the comparison; the first is the primary one.
        colors: Colors by arm.
        conclusion: Function that returns the conclusion from the primary effect.
    """
    tasks = group_by_task(found, random)
    effects = {name: estimate(list(tasks.values()), contrast(*pair)) for name, pair in pairs.items()}
    lines = {name.replace("\n", " "): effect for name, effect in effects.items()}
    contrasts = {name.replace("\n", " "): contrast(*pair) for name, pair in pairs.items()}
    primary, *_ = pairs
    parts = [areas_table(found, tasks), effects_table(lines, contrasts, list(tasks.values()))]
    parts += [conclusion(effects[primary]), make_task_table(tasks, contrasts)]
    return "\n\n".join(parts), lambda: draw(found, effects, random, colors, (primary,), CLAIMS["SAC"])
