"""Reports of studies: curves, tables with all seeds, estimates, intervals and conclusions."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks.studies import recipes, relabeled, screening
from benchmarks.studies.differences import verdict
from benchmarks.studies.published_comparison import describe, difference, find_published, iqm, split_by_completeness
from benchmarks.studies.ratio_statistics import get_areas
from benchmarks.studies.study_curves import each_run, mean_curve, read
from benchmarks.studies.study_table import over_tasks
from interreplay.runs.results.intervals import Difference


def rows_of():
    """Return two runs of one arm at different steps, seed 1 first: the lines 2x and 4x."""
    made = [(1, steps, 4 * steps) for steps in (0.0, 5.0, 10.0)] + [(0, steps, 2 * steps) for steps in (0.0, 4.0, 10.0)]
    return pd.DataFrame(made, columns=["seed", "steps", "value"])


def test_runs_are_averaged_at_the_steps_of_the_first():
    steps, means = mean_curve(each_run(rows_of()))
    assert steps.tolist() == [0.0, 4.0, 10.0] and means.tolist() == pytest.approx([0.0, 12.0, 30.0])
    assert mean_curve(each_run(rows_of()), smooth=3)[1][1] == pytest.approx(14.0)


def test_areas_are_means_over_steps_in_the_order_of_seeds():
    assert get_areas(rows_of(), random=1.0, first=0) == pytest.approx(np.array([9.0, 19.0]))


def test_a_folder_without_runs_is_named(tmp_path):
    with pytest.raises(SystemExit, match="contains no finished run"):
        read(tmp_path)


def test_the_probability_of_improvement_has_its_interval():
    key = {"algorithm": "SAC", "measure": "auc"}
    scores = {"runs": 15, "iqm": 0.6, "iqm_low": 0.5, "iqm_high": 0.7}
    scores |= {"ratio": 1.1, "ratio_low": 0.9, "ratio_high": 1.2}
    found = pd.DataFrame([key | {"method": name} | scores for name in ("Uniform", "NMER")])
    chance = {"probability": 0.53, "probability_low": 0.31, "probability_high": 0.75}
    improved = pd.DataFrame([key | {"method": "NMER", "baseline": "Uniform"} | chance])
    uniform, nmer = over_tasks(found, improved, "Uniform").splitlines()[2:]
    assert uniform == "| SAC Uniform | auc | 15 | 0.6 (0.5 to 0.7) | 1 | – |"
    assert nmer == "| SAC NMER | auc | 15 | 0.6 (0.5 to 0.7) | 1.1 (0.9 to 1.2) | 0.53 (0.31 to 0.75) |"


TASKS = ["dm_control/walker-walk-v0", "dm_control/cheetah-run-v0", "dm_control/finger-spin-v0", "HalfCheetah-v5"]


def test_the_interquartile_mean_is_the_mean_of_the_middle_half():
    assert iqm(np.array([900.0, 100.0, 300.0, 5_000.0]), TASKS) == pytest.approx((0.3 + 0.5) / 2)


def test_equal_returns_have_no_difference():
    own = {}
    for env in TASKS:
        own[env] = np.full(3, find_published(env, "FoG", 50_000)[0])
    point, low, high = difference(own, "FoG", 50_000)
    assert point == pytest.approx(0.0) and low < 0 < high and high - low < 0.3


def test_one_seed_of_a_task_has_no_interval():
    own = {"dm_control/walker-walk-v0": np.array([900.0])}
    point, low, high = difference(own, "BRO (ratio 10)", 25_000)
    published = find_published(*own, "BRO (ratio 10)", 25_000)[0]
    assert point == pytest.approx(0.9 - published / 1_000) and math.isnan(low + high)
    assert "minus that of FoG: +0.1" in describe(own, 25_000)


def test_returns_within_a_published_deviation_are_level():
    own = {env: np.array([600.0]) for env in TASKS[:3]}
    rows = describe(own, 25_000).splitlines()[2:5]
    assert [row.split(" | ")[-1] for row in rows] == ["behind |", "ahead |", "behind |"]
    own = {"dm_control/finger-spin-v0": np.array([604.1])}
    assert "| level |" in describe(own, 25_000)


def test_seeds_that_a_task_lacks_are_not_counted():
    runs = pd.DataFrame([("A", 0), ("A", 1), ("B", 0), ("B", 1), ("B", 2)], columns=["env", "seed"])
    counted, others = split_by_completeness(runs)
    assert counted["seed"].tolist() == [0, 1, 0, 1] and others.to_numpy().tolist() == [["B", 2]]


@pytest.fixture
def rows():
    """Return the evaluations of three seeds that rise to a level of the arm plus the seed."""
    parts = []
    for env, high in (("CartPole-v1", 490.0), ("MinAtar/Breakout-v1", 1.0)):
        for (arm, level), seed in itertools.product((("Preset", high), ("Platform", high / 2)), range(3)):
            values = [0.0, level, level, level + 3 * seed]
            run = {"env": env, "arm": arm, "seed": seed, "steps": [10, 20, 30, 40], "value": values}
            parts.append(pd.DataFrame(run))
    return pd.concat(parts, ignore_index=True)


def test_tables_of_recipes(rows):
    first, second = recipes.describe(rows).split("\n\n")
    assert "| CartPole-v1 | Preset | 40 | 490, 491, 492 | 475 | yes |" in first
    assert "| CartPole-v1 | Platform | 40 | 245, 246, 247 | 475 | no |" in first
    assert "| MinAtar/Breakout-v1 | Preset | 40 | 1, 2, 3 | 1.25 | no |" in first  # one seed is below
    ours, theirs = np.array([367.5, 368.25, 369]), np.array([183.75, 184.5, 185.25])
    found = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert f"| CartPole-v1 | 184 | {found.low:.3g} to {found.high:.3g} | the preset learns faster |" in second
    assert "| MinAtar/Breakout-v1 | 0.375 |" in second and second.endswith("| undecided |")
    assert len(recipes.draw(rows).axes) == 2


def test_conclusions():
    found = [verdict(Difference(low + 1, low, low + 2, 3), "faster", "slower") for low in (1, -3, -1)]
    assert found == ["faster", "slower", "undecided"]


def test_tables_of_relabeled_data():
    parts = []
    levels = {"nothing": 10.0, "relabeled": 20.0, "old": 5.0}
    for env, (arm, level), seed in itertools.product(relabeled.TASKS, levels.items(), range(3)):
        values = level + seed + np.array([-1.0, 0.0, 1.0])
        run = {"env": env, "arm": arm, "seed": seed, "steps": [1_000, 2_000, 3_000], "value": values}
        parts.append(pd.DataFrame(run))
    first, second = relabeled.describe(pd.concat(parts)).split("\n\n")
    assert "| Pendulum, turning | nothing | 3,000 | 10, 11, 12 | 12 |" in first
    rows = second.splitlines()[2:]
    interval = stats.ttest_ind([20, 21, 22], [10, 11, 12], equal_var=False).confidence_interval(0.95)
    expected = f"| 10 | {interval.low:.3g} to {interval.high:.3g} | helps |"
    assert rows[0] == f"| Pendulum, turning | relabeled - nothing {expected}"
    assert rows[1].endswith("| harms |")


LEARNED = ("dm_control/walker-walk-v0", "HalfCheetah-v5")
LEVELS = {"preset": 100.0, "better": 200.0, "worse": 50.0}


def curves(levels: dict[str, float], envs: tuple[str, ...], seeds: tuple[int, ...] = (100, 101)) -> pd.DataFrame:
    """Return constant curves of the levels."""
    parts = []
    for env, (arm, level), seed in itertools.product(envs, levels.items(), seeds):
        run = {"env": env, "arm": arm, "seed": seed, "steps": [1_000, 2_000, 3_000], "value": level}
        parts.append(pd.DataFrame(run))
    return pd.concat(parts)


@pytest.fixture
def tasks():
    unlearned = curves({"preset": 30.0, "better": 30.0}, (screening.NOT_LEARNED,))
    runs = pd.concat([curves(LEVELS, LEARNED), unlearned, curves({"incomplete": 900.0}, LEARNED, (100,))])
    return screening.group_areas(runs, dict.fromkeys((*LEARNED, screening.NOT_LEARNED), 10.0), (100, 101))


@pytest.mark.slow
def test_estimates_are_mean_log_ratios_with_and_without_the_task_that_is_not_learned(tasks):
    lines = screening.describe(tasks).splitlines()
    assert lines[0].endswith("| × preset, without quadruped-run | with it |")
    better = 190 / 90
    with_it = better ** (2 / 3)
    assert lines[2] == f"| better | 190 | 20 | 190 | {better:.2f} | {with_it:.2f} |"
    assert lines[3] == "| preset | 90 | 20 | 90 | 1 | 1 |"
    assert lines[4] == f"| worse | 40 | – | 40 | {40 / 90:.2f} | – |"
    assert len(lines) == 5  # an arm that lacks a seed is left out


@pytest.mark.slow
def test_seeds_give_an_interval_around_the_estimate(tasks):
    spread = {env: {arm: areas + [-5.0, 5.0] for arm, areas in task.items()} for env, task in tasks.items()}
    ratio, low, high = screening.estimate(list(spread.values()), "better")
    assert low < ratio < high


@pytest.mark.slow
def test_the_figure_shows_the_learned_tasks(tasks):
    (axis,) = screening.draw(tasks, tasks).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["better", "worse"]
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["HalfCheetah", "walker-walk"]
