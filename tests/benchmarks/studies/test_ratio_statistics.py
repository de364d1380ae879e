"""Statistics of the studies of update ratios, compared with naive loops and known cases."""

import numpy as np
import pytest

from benchmarks.studies.ratio_statistics import (
    ARMS,
    CONTRASTS,
    Estimate,
    area,
    bootstrapped,
    conclusion,
    effect,
    estimate,
    get_floor,
    holm,
    interaction,
    log_ratio,
    permuted,
    preferred,
)


def made(rng, tasks=3, n=4, **factors):
    """Return areas of tasks; an arm's areas are about 100 times its factor."""
    return [{arm: 100 * factors.get(arm.replace("-", ""), 1.0) * rng.lognormal(0, 0.3, n) for arm in ARMS}] + [
        {arm: 10 * factors.get(arm.replace("-", ""), 1.0) * rng.lognormal(0, 0.3, n) for arm in ARMS}
        for _ in range(tasks - 1)
    ]


def test_area_is_the_mean_above_random_from_two_thousand_steps_on():
    steps = np.arange(0, 12_001, 1_000.0)
    assert area(steps, np.full(13, 7.0), 2.0) == 5.0
    line = area(steps, steps, 0.0)
    assert line == pytest.approx(7_000.0)  # mean of a line from 2,000 to 12,000
    spoilt = np.where(steps < 2_000, 1e9, steps)
    assert area(steps, spoilt, 0.0) == line


def test_ratios_are_of_means_and_small_means_count_as_the_floor():
    task = {"Uniform-1": np.array([1.0, 3.0]), "NMER-20": np.array([8.0, 8.0])}
    assert get_floor(task) == pytest.approx(0.4)
    assert log_ratio(task["NMER-20"], task["Uniform-1"], 0.4) == pytest.approx(np.log(4))
    assert log_ratio(task["NMER-20"], np.array([-5.0, -5.0]), 0.4) == pytest.approx(np.log(20))


def test_the_ratio_of_each_half_is_chosen_by_the_other():
    task = {"Uniform-1": np.array([1.0, 2.0, 30.0, 40.0]), "Uniform-20": np.array([5.0, 6.0, 7.0, 8.0])}
    # The second half prefers 1 (35 > 7.5), which rules the first; the first prefers 20, which rules the second.
    assert preferred(task).tolist() == [1.0, 2.0, 7.0, 8.0]


@pytest.mark.slow
def test_the_effect_is_found_and_its_interval_covers_it():
    rng = np.random.default_rng(0)
    tasks = made(rng, n=40, NMER20=2.0, Uniform1=0.2, NMER1=0.2)
    for name in ("A", "B"):
        found = estimate(tasks, CONTRASTS[name])
        assert found.low < 2.0 < found.high and found.high / found.low < 1.4
        assert found.p < 0.001
    assert np.exp(interaction(tasks)) == pytest.approx(2.0, rel=0.25)
    assert estimate(tasks, CONTRASTS["at 1"]).p > 0.05


def test_the_permutation_test_without_an_effect():
    rng = np.random.default_rng(1)
    values = [permuted(made(rng), CONTRASTS["B"], 300) for _ in range(200)]
    assert 0.02 < np.mean(np.array(values) <= 0.1) < 0.19  # .1 expected, sd .021
    ours, theirs = np.array([3.0, 4.0]), np.array([1.0, 2.0])
    p = permuted([{"NMER-20": ours, "Uniform-20": theirs}], CONTRASTS["B"], 20_000)
    assert p == pytest.approx(2 / 6, abs=0.02)  # of six labelings, this one and its mirror


def test_intervals_draw_seeds_within_tasks_and_arms():
    tasks = made(np.random.default_rng(2), n=6)
    low, high = bootstrapped(tasks, lambda drawn: effect(drawn, CONTRASTS["B"]), 500)
    assert low < effect(tasks, CONTRASTS["B"]) < high
    constant = [{arm: areas.mean() * np.ones(6) + 1e-9 * np.arange(6) for arm, areas in task.items()} for task in tasks]
    low, high = bootstrapped(constant, lambda drawn: effect(drawn, CONTRASTS["B"]), 500)
    assert high - low < 1e-6


def test_holm_and_conclusions():
    assert holm({"A": 0.04, "B": 0.01}) == {"B": 0.02, "A": 0.04}
    assert holm({"A": 0.03, "B": 0.02}) == {"B": 0.04, "A": 0.04}
    claims = {"TD3": 1.94, "SAC": 1.29}
    assert conclusion(Estimate(1.5, 1.1, 2.0), claims) == "supported in kind"
    assert conclusion(Estimate(1.0, 0.8, 1.2), claims) == "excluded in size: +94 % (TD3), +29 % (SAC)"
    assert conclusion(Estimate(1.2, 0.8, 1.5), claims) == "excluded in size: +94 % (TD3)"
    assert conclusion(Estimate(1.2, 0.5, 2.5), claims) == "undecided"
