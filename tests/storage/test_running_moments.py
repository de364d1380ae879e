"""Running moments compared with numpy on the current rows."""

import numpy as np
import pytest

from interreplay.storage.running_moments import ExactMoments, RunningMoments, RunningStandardizer, drift


def check(moments: RunningMoments, held: dict[int, np.ndarray], rtol: float = 1e-9) -> None:
    for group, rows in held.items():
        assert moments.counts[group] == len(rows)
        mean, std = moments.mean_and_std(group)
        if len(rows):
            np.testing.assert_allclose(mean, rows.mean(0), rtol=rtol, atol=1e-12)
            np.testing.assert_allclose(std, rows.std(0), rtol=rtol, atol=1e-6)
        else:
            assert not any(moments.state_dict()[name][group].any() for name in ("sums", "squares"))
    together = np.array(list(held))
    means, stds = moments.mean_and_std(together)
    for number, group in enumerate(held):
        for found, one in zip((means, stds), moments.mean_and_std(group), strict=True):
            assert np.array_equal(found[number], one)


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("portion", [1, 40])
def test_groups_with_added_and_removed_rows(portion, offset):
    rng, moments = np.random.default_rng(portion), RunningMoments(3)
    moments.grow(4)
    moments.origin[:] = offset
    rows, groups = np.zeros((0, 3), np.float32), np.zeros(0, np.int64)
    for turn in range(300 // portion + 30):
        new = (offset + rng.normal(size=(portion, 3)) * [1.0, 0.01, 5.0]).astype(np.float32)
        into = rng.integers(0, 4, portion)
        moments.add(new, into)
        rows, groups = np.concatenate([rows, new]), np.concatenate([groups, into])
        gone = min(len(rows), int(rng.integers(0, 2 * portion + 1)))
        moments.remove(rows[:gone], groups[:gone])
        rows, groups = rows[gone:], groups[gone:]
        if turn % 9 == 0:
            moments.clear(np.array([2]))
            moments.add(rows[groups == 2], np.full((groups == 2).sum(), 2))
        check(moments, {group: rows[groups == group].astype(np.float64) for group in range(4)}, 1e-5)


def test_a_removed_outlier_leaves_no_error():
    rng, moments = np.random.default_rng(0), ExactMoments(2)
    kept = rng.normal(size=(50, 2)).astype(np.float32)
    moments.add(kept)
    for _ in range(20):
        outlier = (rng.normal(size=(1, 2)) * 1e9).astype(np.float32)
        moments.add(outlier)
        more = rng.normal(size=(3, 2)).astype(np.float32)
        moments.add(more)
        moments.remove(outlier)
        moments.remove(more)
    check(moments, {0: kept.astype(np.float64)}, rtol=1e-7)


@pytest.mark.parametrize("kind", [RunningMoments, ExactMoments])
def test_a_hundred_thousand_updates_leave_no_error(kind):
    rng, moments, size = np.random.default_rng(0), kind(4), 500
    rows = (1e3 + rng.normal(size=(size, 4)) * [1.0, 100.0, 1e-3, 1.0]).astype(np.float32)
    moments.origin[0] = rows[0]
    moments.add(rows)
    for turn in range(100_000 // (2 * 20)):
        at = (turn * 20) % size
        moments.remove(rows[at : at + 20])
        rows[at : at + 20] = (1e3 + rng.normal(size=(20, 4)) * [1.0, 100.0, 1e-3, 1.0]).astype(np.float32)
        moments.add(rows[at : at + 20])
    held = rows.astype(np.float64)
    check(moments, {0: held}, rtol=1e-9)


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
