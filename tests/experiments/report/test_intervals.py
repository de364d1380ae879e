"""Statistics, compared with small cases that are computed manually."""

import itertools
import warnings

import numpy as np
import pytest

from interreplay.runs.results.intervals import improvement, interval, iqm, mean, ratio


def test_mean_is_over_environments_then_runs():
    assert mean(np.array([1.0, 3.0]), np.array([10.0])) == 6.0


def test_iqm_is_the_mean_of_the_middle_half():
    assert iqm(np.array([0.0, 1.0, 2.0, 100.0])) == 1.5
    assert iqm(np.array([0.0, 1.0]), np.array([100.0, 2.0])) == 1.5
    assert iqm(np.array([1.0, 2.0, 6.0])) == 3.0, "of three runs a quarter is none"


def test_improvement_counts_pairs_and_ties_as_half():
    # 1>0, 1=1 | 3>0, 3>1: 3.5 of 4; in the other environment 0 of 1
    ours, theirs = [np.array([1.0, 3.0]), np.array([0.0])], [np.array([0.0, 1.0]), np.array([5.0])]
    assert improvement(*ours, *theirs) == pytest.approx((3.5 / 4 + 0) / 2)


def test_ratio_is_the_geometric_mean_over_environments_of_ratios_of_means_of_at_least_the_floor():
    assert ratio(np.array([2.0, 4.0]), np.array([1.0, 2.0])) == pytest.approx(2.0)
    assert ratio(np.array([8.0]), np.array([1.0]), np.array([1.0]), np.array([2.0])) == pytest.approx(2.0)
    assert ratio(np.array([2.0]), np.array([-1.0])) == pytest.approx(2.0 / 0.05)
    low, high = interval(ratio, [np.array([1.0, 2.0]), np.array([-1.0, 3.0])])
    assert low == pytest.approx(1 / 3) and high == pytest.approx(40)


def test_interval_against_all_resamples_of_three_runs():
    values = np.array([0.0, 3.0, 9.0])
    means = [np.mean(draw) for draw in itertools.product(values, repeat=3)]
    low, high = interval(mean, [values])
    # Of 27 equally likely resamples 1 has the mean 0 and 1 the mean 9: both have more than 2.5 %.
    assert (low, high) == (min(means), max(means)) == (0.0, 9.0)


def test_interval_against_the_exact_distribution_of_fair_coins():
    # The sum of 100 resampled coins is binomial: its 2.5 % and 97.5 % quantiles are 40 and 60.
    low, high = interval(mean, [np.array([0.0, 1.0] * 50)])
    assert low == pytest.approx(0.40, abs=0.015) and high == pytest.approx(0.60, abs=0.015)


def test_resampling_stays_within_environments():
    # Without strata the mean of these would vary between -100 and 100.
    assert interval(mean, [np.array([100.0, 100.0]), np.array([-100.0, -100.0])]) == (0.0, 0.0)


def test_one_run_has_no_interval():
    assert np.isnan(interval(mean, [np.array([1.0, 2.0]), np.array([1.0])])).all()
    assert np.isnan(interval(mean, [np.ones((4, 1))])).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(interval(mean, [np.array([])])).all()


def test_intervals_of_curves_are_those_of_their_points():
    values = np.random.default_rng(0).normal(size=(3, 5))
    low, high = interval(mean, [values])
    alone = [interval(mean, [row]) for row in values]
    assert np.allclose(low, [a for a, _ in alone]) and np.allclose(high, [b for _, b in alone])
    assert interval(iqm, [values[0]]) == interval(iqm, [values[0]])
