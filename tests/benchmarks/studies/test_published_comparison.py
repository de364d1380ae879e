"""The preset's returns at 25,000 env steps, compared with published ones."""

import math

import numpy as np
import pytest

from benchmarks.studies.published_comparison import describe, difference, iqm, published_at

TASKS = ["dm_control/walker-walk-v0", "dm_control/cheetah-run-v0", "dm_control/finger-spin-v0", "HalfCheetah-v5"]


def test_the_interquartile_mean_is_the_mean_of_the_middle_half():
    assert iqm(np.array([900.0, 100.0, 300.0, 5_000.0]), TASKS) == pytest.approx((0.3 + 0.5) / 2)


def test_equal_returns_have_no_difference():
    own = {}
    for env in TASKS:
        own[env] = np.full(3, published_at(env, "FoG")[0])
    point, low, high = difference(own, "FoG")
    assert point == pytest.approx(0.0) and low < 0 < high and high - low < 0.3


def test_one_seed_of_a_task_has_no_interval():
    own = {"dm_control/walker-walk-v0": np.array([900.0])}
    point, low, high = difference(own, "BRO (ratio 10)")
    assert point == pytest.approx(0.9 - published_at(*own, "BRO (ratio 10)")[0] / 1_000) and math.isnan(low + high)
    assert "minus that of FoG: +0.1" in describe(own)
