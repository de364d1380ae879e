"""Published learning curves of the same tasks, for comparison."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd

from interreplay.experiments.report.sections import Section

STEPS = (10_000, 25_000, 50_000, 100_000)
"""Environment steps of the table."""
OWN = "this report"
"""Source of the rows about the runs of the report."""
DIFFERENCES = (
    "Published values are means ± standard deviations of evaluation returns over seeds. A star marks values "
    "interpolated linearly between two points of a curve.",
    "Gymnasium: the published curves are of v4 environments. Rewards and observations of some tasks differ in v5.",
    "DeepMind control suite: steps are simulator steps. SimBa, SimbaV2, XQC and DR.Q repeat each action twice, BRO "
    "does not; the action repeat of FoG is not verified. These runs repeat no action.",
    "Ratios are updates per environment step. The ratio of SimbaV2's Gymnasium curves is uncertain. Network sizes, "
    "exploration and the number of evaluation episodes differ as well: a difference is not an effect of replay alone.",
    "Sources: per-seed results in the repositories SonyResearch/simba, DAVIAN-Robotics/SimbaV2 (Apache License 2.0), "
    "danielpalenicek/xqc and dmksjfl/DR.Q (MIT License). SimbaV2's repository holds the curves of BRO, CrossQ, DroQ, "
    "REDQ and SAC as well, DR.Q's those of FoG.",
)


def published_task(env: str) -> str:
    """Return the name of an environment in the published curves.

    Gymnasium ids of any version map to v4: ``HalfCheetah-v5`` to ``HalfCheetah-v4``. Ids of the DeepMind control suite
    lose their namespace and version: ``dm_control/finger-turn_easy-v0`` becomes ``finger-turn-easy``.
    """
    if env.startswith("dm_control/"):
        return re.sub(r"-v\d+$", "", env.removeprefix("dm_control/")).replace("_", "-")
    return re.sub(r"-v\d+$", "-v4", env)


def published_curves(env: str) -> pd.DataFrame:
    """Return the published curves of an environment: method, env_steps, mean, sd, seeds, source; empty if unknown."""
    with (files("interreplay.experiments.report") / "published_curves.csv.gz").open("rb") as file:
        table = pd.read_csv(file, compression="gzip", comment="#")
    return table[table["task"] == published_task(env)].drop(columns="task")


def published_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return means and standard deviations at `STEPS`, of the methods of the report and of published ones.

    Values are interpolated linearly between two evaluations, or two published points; NaN outside.
    """
    rows: list[dict[str, Any]] = []
    for section in sections:
        for task in section.tasks:
            curves = published_curves(task.env)
            if section.measure == "success" or not len(curves):
                continue
            common = {"algorithm": section.algorithm, "env": task.env}
            for method, own in task.own.items():
                means = own.values.mean(axis=0)
                sds = pd.DataFrame(own.values).std().to_numpy()
                label = {**common, "method": method, "source": OWN, "seeds": len(own.values)}
                rows += _interpolate_steps(label, own.steps, means, sds)
            for (method, source), curve in curves.groupby(["method", "source"]):
                label = {**common, "method": method, "source": source, "seeds": int(curve["seeds"].max())}
                rows += _interpolate_steps(label, *curve[["env_steps", "mean", "sd"]].to_numpy(float).T)
    return pd.DataFrame(rows)


def _interpolate_steps(
    label: dict[str, Any], steps: np.ndarray, means: np.ndarray, sds: np.ndarray
) -> list[dict[str, Any]]:
    """Return a label with the mean and the standard deviation at each of `STEPS`, and whether they are interpolated."""
    rows = []
    for at in STEPS:
        mean = float(np.interp(at, steps, means, left=np.nan, right=np.nan))
        sd = float(np.interp(at, steps, sds, left=np.nan, right=np.nan))
        rows.append(label | {"env_steps": at, "mean": mean, "sd": sd, "interpolated": at not in steps})
    return rows
