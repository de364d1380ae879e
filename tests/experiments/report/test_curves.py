import numpy as np
import pandas as pd
import pytest

from interreplay.experiments.report.curves import Curves, align, restrict_to_common_range
from interreplay.experiments.report.reading import FINISHED, Description, Run


def run(steps, values):
    results = pd.DataFrame({"env_steps": np.array(steps, float), "evaluation": np.array(values, float)})
    return Run(path=None, description=Description(), state=FINISHED, results=results)  # type: ignore[arg-type]


def test_runs_are_aligned_at_all_steps_of_their_common_range():
    curves = align([run([0, 10, 20], [0, 10, 20]), run([5, 15, 40], [1, 1, 1])], "evaluation")
    assert curves.steps.tolist() == [5, 10, 15, 20]
    assert curves.values.tolist() == [[5, 10, 15, 20], [1, 1, 1, 1]]


def test_missing_values_are_interpolated_within_the_range():
    curves = align([run([0, 10, 20, 30], [np.nan, 0, np.nan, 2]), run([0, 20, 30], [3, 3, 3])], "evaluation")
    assert curves.steps.tolist() == [10, 20, 30]
    assert curves.values[0].tolist() == [0, 1, 2]


def test_runs_without_a_common_range_have_no_curves():
    assert align([run([0, 1], [0, 0]), run([2, 3], [0, 0])], "evaluation") is None
    assert align([], "evaluation") is None
    assert align([run([0], [np.nan])], "evaluation") is None


def test_drawn_curves_have_at_most_200_points():
    steps = np.arange(1000)
    curves = align([run(steps, steps)], "evaluation").thin()
    assert curves.values.shape == (1, 200) and np.allclose(curves.values[0], curves.steps)


def test_area_under_the_curve():
    # Trapezoids of widths 1 and 3: (0+2)/2 + 3*(2+4)/2 = 10, over a length of 4
    assert Curves(np.array([0.0, 1, 4]), np.array([[0.0, 2, 4]])).means().tolist() == [2.5]
    assert Curves(np.array([7.0]), np.array([[3.0]])).means().tolist() == [3.0]
    constant = Curves(1024 * np.arange(1.0, 11), np.full((1, 10), -200.0))
    assert constant.finals() == [-200.0], "without a rounding error, which would be a difference between methods"


def test_the_final_return_is_the_mean_of_the_last_tenth_with_any_evaluation_interval():
    for count in (2, 5, 12, 200):
        steps = np.linspace(0, 100, count)
        assert Curves(steps, steps[None]).finals() == pytest.approx([95.0])
    assert Curves(np.array([7.0]), np.array([[3.0]])).finals() == [3.0]


def test_first_step_at_the_threshold():
    curves = Curves(np.array([1.0, 2, 3]), np.array([[0.0, 5, 1], [0.0, 0, 0]]))
    assert curves.find_threshold_steps(5).tolist() == [2, np.inf]


def test_methods_are_compared_over_the_same_range():
    """Equal curves with evaluations at other steps have equal areas and final returns."""
    steps = [np.array([5.0, 10]), np.array([3.0, 6, 9])]
    shared, end = restrict_to_common_range({str(i): Curves(each, each[None]) for i, each in enumerate(steps)})
    assert end == 9
    for curves in shared.values():
        assert curves.steps[[0, -1]].tolist() == [5, 9]
        assert curves.means() == [7] and curves.finals() == pytest.approx([8.8])


def test_areas_final_returns_and_thresholds_use_all_evaluations():
    """Also with more evaluations than figures show; here the return is 1 once, in the last tenth."""
    values = np.zeros(1001)
    values[950] = 1.0
    curves = align([run(np.arange(1001), values)], "evaluation")
    assert curves.means() == pytest.approx([0.001]) and curves.finals() == pytest.approx([0.01])
    assert curves.find_threshold_steps(1.0) == [950]
