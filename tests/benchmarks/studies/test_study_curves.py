"""Curves of a study's runs: means of runs whose steps differ, areas by seed, folders without runs."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.studies.ratio_statistics import areas_of
from benchmarks.studies.study_curves import each_run, mean_curve, read


def rows():
    """Return two runs of one arm at different steps, seed 1 first: the lines 2x and 4x."""
    made = [(1, steps, 4 * steps) for steps in (0.0, 5.0, 10.0)] + [(0, steps, 2 * steps) for steps in (0.0, 4.0, 10.0)]
    return pd.DataFrame(made, columns=["seed", "steps", "value"])


def test_runs_are_averaged_at_the_steps_of_the_first():
    steps, means = mean_curve(each_run(rows()))
    assert steps.tolist() == [0.0, 4.0, 10.0] and means.tolist() == pytest.approx([0.0, 12.0, 30.0])
    assert mean_curve(each_run(rows()), smooth=3)[1][1] == pytest.approx(14.0)


def test_areas_are_means_over_steps_in_the_order_of_seeds():
    assert areas_of(rows(), random=1.0, first=0) == pytest.approx(np.array([9.0, 19.0]))


def test_a_folder_without_runs_is_named(tmp_path):
    with pytest.raises(SystemExit, match="contains no finished run"):
        read(tmp_path)
