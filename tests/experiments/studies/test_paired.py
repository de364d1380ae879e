"""Paired differences of forks against closed forms."""

import math

import numpy as np
import pytest
from run_folders import row, write
from scipy import stats

from benchmarks.studies.differences import independent
from interreplay.experiments.commands import fork
from interreplay.runs.results.intervals import compare_seeds


def test_a_paired_interval_is_student_s_and_ignores_other_seeds():
    ours, theirs = {0: 5.0, 1: 9.0, 2: 4.0, 7: 1e9}, {0: 1.0, 1: 3.0, 2: 2.0, 8: -1e9}
    found = compare_seeds(ours, theirs)
    differences = np.array([4.0, 6.0, 2.0])
    half = stats.t.ppf(0.975, 2) * differences.std(ddof=1) / math.sqrt(3)
    assert (found.value, found.seeds) == (4.0, 3)
    assert (found.low, found.high) == pytest.approx((4.0 - half, 4.0 + half))


def test_one_seed_has_no_interval():
    found = compare_seeds({0: 2.0}, {0: 1.0})
    assert found.value == 1.0 and math.isnan(found.low) and str(found) == "+1.0"
    assert math.isnan(compare_seeds({0: 2.0}, {1: 1.0}).value)


def test_a_common_past_cancels_in_paired_differences_only():
    rng = np.random.default_rng(0)
    past = rng.normal(0, 100, 8)
    ours = past + 3 + rng.normal(0, 1, 8)
    theirs = past + rng.normal(0, 1, 8)
    close = compare_seeds(dict(enumerate(ours)), dict(enumerate(theirs)))
    wide = independent(ours.tolist(), theirs.tolist())
    assert close.value == pytest.approx(wide.value)
    assert close.low > 0 and wide.low < 0 and (close.high - close.low) < 0.1 * (wide.high - wide.low)


def test_only_results_after_the_fork_count(tmp_path):
    for seed, values in enumerate(([1.0, 2.0, 6.0], [1.0, 4.0, 8.0])):
        write(tmp_path / f"A{seed}", [row(100.0 * (i + 1), 0.0, value) for i, value in enumerate(values)])
    write(tmp_path / "B0", [row(100.0, 0.0, 3.0)])
    folders = {("A", 0): tmp_path / "A0", ("A", 1): tmp_path / "A1", ("B", 0): tmp_path / "B0"}
    arms = fork.read_arms(folders, 100)
    assert arms == {"A": {0: [(200, 2.0), (300, 6.0)], 1: [(200, 4.0), (300, 8.0)]}}
    rows = fork.make_rows(arms)
    assert rows[["mean", "final"]].to_numpy().tolist() == [[4.0, 6.0], [6.0, 8.0]]
    (head, line) = fork.make_table(rows)
    assert line[:4] == ("A", "2", "5.0", "7.0") and head[4] == "mean - A"
