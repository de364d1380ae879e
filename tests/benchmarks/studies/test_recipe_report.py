"""The report of the study of two recipes for IMPALA: finals, areas, Welch's interval and conclusions."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks.studies import recipes
from benchmarks.studies.study_curves import each_run
from interreplay.experiments.studies.paired import Difference


def curves(env: str, arm: str, level: float) -> list[pd.DataFrame]:
    """Return the evaluations of three seeds that rise to `level` plus the seed."""
    made = []
    for seed in range(3):
        values = np.array([0.0, level, level, level + 3 * seed])
        run = {"env": env, "arm": arm, "seed": seed, "steps": [10, 20, 30, 40], "value": values}
        made.append(pd.DataFrame(run))
    return made


@pytest.fixture
def rows():
    parts = []
    for env, high in (("CartPole-v1", 490.0), ("MinAtar/Breakout-v1", 1.0)):
        parts += curves(env, "Preset", high)
        parts += curves(env, "Platform", high / 2)
    return pd.concat(parts, ignore_index=True)


def test_finals_and_areas(rows):
    runs = each_run(rows[(rows["env"] == "CartPole-v1") & (rows["arm"] == "Preset")])
    assert recipes.finals(runs) == pytest.approx([490, 491, 492])
    assert recipes.areas(runs) == pytest.approx([367.5, 368.25, 369])


def test_the_tables(rows):
    first, second = recipes.describe(rows).split("\n\n")
    assert "| CartPole-v1 | Preset | 40 | 490, 491, 492 | 475 | yes |" in first
    assert "| CartPole-v1 | Platform | 40 | 245, 246, 247 | 475 | no |" in first
    assert "| MinAtar/Breakout-v1 | Preset | 40 | 1, 2, 3 | 1.25 | no |" in first  # one seed is below
    ours, theirs = np.array([367.5, 368.25, 369]), np.array([183.75, 184.5, 185.25])
    found = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert f"| CartPole-v1 | 184 | {found.low:.3g} to {found.high:.3g} | the preset learns faster |" in second
    assert "| MinAtar/Breakout-v1 | 0.375 |" in second and second.endswith("| undecided |")
    assert len(recipes.draw(rows).axes) == 2


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(1, 2, "the preset learns faster"), (-2, -1, "the platform's recipe learns faster"), (-1, 2, "undecided")],
)
def test_conclusions(low, high, expected):
    assert recipes.verdict(Difference((low + high) / 2, low, high, 3)) == expected
