"""The hold-out evaluation compared with a naive one."""

import numpy as np
import pytest
import torch
from builders import make
from naive_gp import predict, random_hyper

from interreplay.storage.state_copies import copy_arrays
from interreplay.synthesis.gaussian_process import Fit, Form, Preparation, Schedule
from interreplay.synthesis.gaussian_process.holdout import evaluate, nearest_blend
from replay_buffers import BIER

N, M, D, A, T = 4, 7, 5, 2, 3


def points(seed=0):
    g = torch.Generator().manual_seed(seed)
    return (torch.randn(N, M, d, generator=g, dtype=torch.float64) for d in (D, T))


def naive_blend(x, y, query):
    """Return the target at the nearest of many points on all segments from the first point."""
    best = (np.inf, None)
    for end, target in zip(x[1:], y[1:], strict=True):
        for share in np.linspace(0, 1, 5_001):
            distance = np.linalg.norm(x[0] + share * (end - x[0]) - query)
            if distance < best[0]:
                best = (distance, y[0] + share * (target - y[0]))
    return best[1]


@pytest.mark.slow
def test_the_blend_is_the_nearest_point_on_any_segment():
    x, y = points()
    found = nearest_blend(x[:2, :5], y[:2, :5], x[:2, 5:])
    for i in range(2):
        for j in range(2):
            expected = naive_blend(x[i, :5].numpy(), y[i, :5].numpy(), x[i, 5 + j].numpy())
            np.testing.assert_allclose(found[i, j], expected, atol=1e-3)


def test_scores_are_those_of_held_out_rows():
    z, y = points()
    form, schedule = Form("rbf", ard=True, per_target=True), Schedule(how=Fit(1))
    schedule.current = random_hyper(form.over(D, A), 1, T)
    scores = evaluate(form, schedule, Preparation(precision="float64"), z, y, A, split=0.3)
    z, y = z.numpy(), y.numpy()
    x, targets = z[:, :5], y[:, :5]
    center, width = x.mean(1, keepdims=True), x.std(1, keepdims=True)
    level, spread = targets.mean(1, keepdims=True), targets.std(1, keepdims=True)
    scaled, queries = (x - center) / width, (z[:, 5:] - center) / width
    mean, variance = predict(form.over(D, A), schedule.current, scaled, (targets - level) / spread, queries)
    error = mean * spread + level - y[:, 5:]
    variance = (variance + schedule.current.noise.numpy()[:, None]) * spread**2
    np.testing.assert_allclose(scores["rmse_gp"], np.sqrt((error**2).mean((0, 1))), rtol=1e-6)
    density = -0.5 * np.log(2 * np.pi * variance) - 0.5 * error**2 / variance
    np.testing.assert_allclose(scores["nll_gp"], -density.mean((0, 1)), rtol=1e-6)
    np.testing.assert_allclose(scores["rmse_mean"], np.sqrt(((level - y[:, 5:]) ** 2).mean((0, 1))), rtol=1e-6)
    blend = nearest_blend(*(torch.from_numpy(v) for v in (scaled, targets, queries))).numpy() - y[:, 5:]
    np.testing.assert_allclose(scores["rmse_blend"], np.sqrt((blend**2).mean((0, 1))), rtol=1e-6)
    share = ((blend / spread) ** 2).mean((0, 1))
    density = -0.5 * np.log(2 * np.pi * share * spread**2) - 0.5 * blend**2 / (share * spread**2)
    np.testing.assert_allclose(scores["nll_blend"], -density.mean((0, 1)), rtol=1e-6)


@pytest.mark.parametrize("schedule", [Schedule("monte_carlo", Fit(2)), Schedule("local", Fit(2))])
def test_evaluation_changes_nothing(schedule):
    before = schedule.state_dict()
    evaluate(Form(), schedule, Preparation(), *points(), A, 0.2)
    assert schedule.state_dict() == before


def test_a_buffer_reports_scores_and_draws_the_same_rows():
    watched = BIER(capacity=300, seed=0, holdout_split=0.2)
    alone = BIER(capacity=300, seed=0)
    for buffer in (watched, alone):
        buffer.synthesizer.schedule.how = Fit(3)
        buffer.add(make(300))
    assert torch.equal(watched.sample(32).transitions.next_obs, alone.sample(32).transitions.next_obs)
    found = watched.synthesizer.statistics()
    assert {f"holdout_rmse_{m}_{t}" for m in ("gp", "blend", "mean") for t in ("reward", "ds0", "ds2")} <= found.keys()
    assert {"holdout_nll_gp_reward", "holdout_nll_blend_ds1", "holdout_rmse_ratio", "holdout_nll_gain"} <= found.keys()
    assert not any(name.startswith("holdout") for name in alone.synthesizer.statistics())
    again = BIER(capacity=300, holdout_split=0.2)
    again.load_state_dict(copy_arrays(watched.state_dict()))
    assert again.synthesizer.statistics() == found
