"""The estimates of stage 1: ratios of areas, with and without the task that no arm learns."""

import itertools

import pandas as pd
import pytest

from benchmarks.studies import screening

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
    runs = pd.concat(
        [
            curves(LEVELS, LEARNED),
            curves({"preset": 30.0, "better": 30.0}, (screening.NOT_LEARNED,)),
            curves({"incomplete": 900.0}, LEARNED, (100,)),
        ]
    )
    return screening.areas_by_task(runs, dict.fromkeys((*LEARNED, screening.NOT_LEARNED), 10.0), (100, 101))


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
