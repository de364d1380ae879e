"""The running scale compared with numpy, with removed rows and constant dimensions."""

import numpy as np
import pytest

from interreplay.storage.running_moments import RunningStandardizer, drift


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_deviation_of_the_stored_rows(offset):
    rows = (offset + np.random.default_rng(0).normal(size=(3000, 4)) * [1, 5, 0.01, 0]).astype(np.float32)
    scale = RunningStandardizer(4)
    scale.center(rows[0])
    for start in range(0, 3000, 100):
        scale.add(rows[start : start + 100])
        if start % 700 == 0:
            scale.freeze()
    scale.remove(rows[:1000])
    mean, std = scale.current()
    kept = rows[1000:].astype(np.float64)
    assert np.allclose(mean, kept.mean(0)) and np.allclose(std, kept.std(0), rtol=1e-6, atol=0) and std[3] == 0


def test_constant_dimensions_become_zero_and_come_back():
    rows = np.array([[1.0, 7.0], [3.0, 7.0]], np.float32)
    scale = RunningStandardizer(2)
    scale.add(rows)
    scale.freeze()
    assert scale.apply(rows).tolist() == [[-1, 0], [1, 0]]
    assert scale.invert(scale.apply(rows)).tolist() == rows.tolist()


def test_drift():
    assert drift(np.array([1.0, 0.0]), np.array([3.0, 0.0])) == pytest.approx(np.log(3) / 2**0.5)
    assert drift(np.array([1.0, 0.0]), np.array([1.0, 1e-9])) == np.inf
    assert drift(np.zeros(2), np.zeros(2)) == 0
    several = drift(np.array([[1.0, 2.0], [0.0, 2.0], [1.0, 0.5]]), np.array([1.0, 1.0]))
    assert several == pytest.approx([np.log(2) / 2**0.5, np.inf, np.log(2) / 2**0.5])
