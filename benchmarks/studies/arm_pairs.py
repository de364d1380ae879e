"""What studies that compare pairs of arms show, some arms being those of a study beside."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import pandas as pd

from benchmarks.studies.ratio_report import (
    CLAIMS,
    areas_table,
    by_task_table,
    draw,
    effects_table,
    tasks_of,
    whole_seeds,
)
from benchmarks.studies.ratio_statistics import Contrast, Estimate, estimate
from benchmarks.studies.study_curves import read
from benchmarks.studies.study_report import Found


def with_arms_of(folder: Path, other: str, arms: Collection[str]) -> pd.DataFrame:
    """Return the curves of a study's runs and of some arms of another in a folder beside, seeds that are whole."""
    own, beside = read(folder), read(folder.parent / other)
    beside = beside[beside["arm"].isin(arms) & beside["seed"].isin(own["seed"])]
    return whole_seeds(pd.concat([own, beside], ignore_index=True))


def contrast(ours: str, theirs: str) -> Contrast:
    """Return what takes two arms from a task."""
    return lambda task: (task[ours], task[theirs])


def compared(
    found: pd.DataFrame,
    random: Mapping[str, float],
    pairs: Mapping[str, tuple[str, str]],
    colors: Mapping[str, str],
    said: Callable[[Estimate], str],
) -> Found:
    """Return the tables, and what draws the figure.

    Args:
        found: As `with_arms_of` returns it.
        random: What random actions return, by task.
        pairs: Arms that are compared, by what it is called; the first pair is what the study is about.
        colors: By arm.
        said: What the first effect means.
    """
    tasks = tasks_of(found, random)
    effects = {name: estimate(list(tasks.values()), contrast(*pair)) for name, pair in pairs.items()}
    lines = {name.replace("\n", " "): effect for name, effect in effects.items()}
    contrasts = {name.replace("\n", " "): contrast(*pair) for name, pair in pairs.items()}
    primary, *_ = pairs
    parts = [areas_table(found, tasks), effects_table(lines, contrasts, list(tasks.values()))]
    parts += [said(effects[primary]), by_task_table(tasks, contrasts)]
    return "\n\n".join(parts), lambda: draw(found, effects, random, colors, (primary,), CLAIMS["SAC"])
