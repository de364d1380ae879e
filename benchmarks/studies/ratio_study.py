"""Tables and figure of a study of update ratios: ``python -m benchmarks.studies.ratio_study FOLDER``.

FOLDER contains the runs, as written by Tune or `benchmarks.keep_study`, and the returns of random actions:
``python -m benchmarks.learning.random_returns FOLDER/random_returns.json ENV ...``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.studies.ratio_report import (
    CLAIMS,
    apply_rule,
    areas_table,
    draw,
    effects_table,
    group_by_task,
    make_task_table,
    random_returns,
    whole_seeds,
)
from benchmarks.studies.ratio_statistics import (
    ARMS,
    BASELINE,
    CONTRASTS,
    HIGH,
    LOW,
    Contrast,
    Estimate,
    Task,
    bootstrapped,
    estimate,
    holm,
)
from benchmarks.studies.ratio_statistics import interaction as interaction_of
from benchmarks.studies.study_curves import read
from benchmarks.studies.study_report import Found, report

COLORS = dict(zip(ARMS, ("#9aa5b1", "#3e4c59", "#f0b429", "#c65d21"), strict=True))
NAMES = {
    "A": "A: NMER at 20 against\nUniform at its better ratio",
    "B": "B: both at 20",
    "at 1": "both at 1",
    "20 against 1": "effect at 20\nover effect at 1",
}
BY_TASK: dict[str, Contrast] = {
    "A": CONTRASTS["A"],
    "B": CONTRASTS["B"],
    "Uniform at 20 against Uniform at 1": lambda task: (task[f"{BASELINE}-{HIGH}"], task[f"{BASELINE}-{LOW}"]),
}
"""Contrasts that are shown for each task."""


def effects(tasks: Sequence[Task]) -> dict[str, Estimate]:
    """Return the primary effects A and B with p-values corrected by Holm, and the secondary effects uncorrected."""
    found = {name: estimate(tasks, contrast) for name, contrast in CONTRASTS.items()}
    corrected = holm({name: found[name].p for name in ("A", "B")})
    found |= {name: Estimate(e.ratio, e.low, e.high, corrected.get(name, e.p)) for name, e in found.items()}
    low, high = np.exp(bootstrapped(tasks, interaction_of))
    return found | {"20 against 1": Estimate(float(np.exp(interaction_of(tasks))), float(low), float(high))}


def make_report(folder: Path) -> Found:
    """Return the tables, and a function that draws the figure."""
    found = whole_seeds(read(folder))
    random = random_returns(folder)
    tasks = group_by_task(found, random)
    found_effects = effects(list(tasks.values()))
    trainer = json.loads(next(folder.glob("*/params.json")).read_text())["trainer"]
    named = {NAMES[name]: effect for name, effect in found_effects.items()}
    lines = {name.replace("\n", " "): effect for name, effect in named.items()}
    contrasts = {NAMES[name].replace("\n", " "): contrast for name, contrast in CONTRASTS.items()}
    parts = [areas_table(found, tasks), effects_table(lines, contrasts, list(tasks.values()), " (Holm for A and B)")]
    parts += [apply_rule(folder, found_effects["A"], {trainer: CLAIMS[trainer]})]
    parts += [make_task_table(tasks, BY_TASK)]
    strong = (NAMES["A"], NAMES["B"])
    return "\n\n".join(parts), lambda: draw(found, named, random, COLORS, strong, CLAIMS[trainer])


if __name__ == "__main__":
    report("benchmarks.studies.ratio_study", __doc__, make_report)
