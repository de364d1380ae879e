"""The report of the study of relabeled data: areas of every seed, Welch's intervals and conclusions."""

import numpy as np
import pandas as pd
from scipy import stats

from benchmarks.studies import relabeled


def test_the_tables():
    parts = []
    levels = {"nothing": 10.0, "relabeled": 20.0, "old": 5.0}
    for env in relabeled.TASKS:
        for arm, level in levels.items():
            for seed in range(3):
                values = level + seed + np.array([-1.0, 0.0, 1.0])
                run = {"env": env, "arm": arm, "seed": seed, "steps": [1_000, 2_000, 3_000], "value": values}
                parts.append(pd.DataFrame(run))
    first, second = relabeled.describe(pd.concat(parts)).split("\n\n")
    assert "| Pendulum, turning | nothing | 3,000 | 10, 11, 12 | 12 |" in first
    rows = second.splitlines()[2:]
    interval = stats.ttest_ind([20, 21, 22], [10, 11, 12], equal_var=False).confidence_interval(0.95)
    expected = f"| 10 | {interval.low:.3g} to {interval.high:.3g} | helps |"
    assert rows[0] == f"| Pendulum, turning | relabeled - nothing {expected}"
    assert rows[1].endswith("| harms |") and relabeled.verdict(-1, 1) == "undecided"
