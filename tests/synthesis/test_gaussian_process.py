"""Rows predicted by Gaussian processes: their values, their fallbacks, and the frequencies of partners."""

import numpy as np
import pytest
import torch
from builders import identical, make
from naive_gp import predict, random_hyper

from interreplay import Transitions
from interreplay.synthesis import Mixup
from interreplay.synthesis.coefficient import Beta
from interreplay.synthesis.gaussian_process import Fit, Form, GaussianProcess, Preparation, Schedule
from replay_buffers import BIER, NMER

N, K = 12, 5


def neighborhoods(seed=0, ends=0.1, **kind):
    """Return random anchors ``(n,)`` and their neighbors ``(n, k)``."""
    rows = make(N * (K + 1), seed=seed, ends=ends, **kind).replace(episode=None)
    folded = rows.map(lambda column: column.view(N, K + 1, *column.shape[1:]))
    return folded.map(lambda c: c[:, 0]), folded.map(lambda c: c[:, 1:])


def fixed(form=None, **arguments):
    """Return a synthesizer with known, different hyperparameters that was never fitted."""
    made = GaussianProcess(form, Preparation(precision="float64"), Schedule(every=10**9), **arguments)
    made.schedule.batches = 1
    made.schedule.current = random_hyper(made.form.over(5, 2), 1, 4)
    return made


@pytest.mark.parametrize("form", [Form("rq"), Form("matern", 1.5, True, "linear", True), Form("rbf", composite=True)])
def test_rows_equal_the_closed_form_at_the_blend(form):
    anchors, neighbors = neighborhoods()
    synthesizer = fixed(form)
    made = synthesizer(anchors, neighbors, np.random.default_rng(3))
    rows, mix = made.rows, made.mix
    z, y = (np.concatenate(pair, axis=1) for pair in zip(numbers(anchors, True), numbers(neighbors), strict=True))
    query = mix.numpy()[:, None] * z[:, 0] + (1 - mix.numpy()[:, None]) * z[:, 1]
    center, width = z.mean(1, keepdims=True), z.std(1, keepdims=True)
    level, spread = y.mean(1, keepdims=True), y.std(1, keepdims=True)
    hyper = synthesizer.schedule.current
    mean, variance = predict(
        form.over(5, 2), hyper, (z - center) / width, (y - level) / spread, (query[:, None] - center) / width
    )
    outcome = (mean * spread + level)[:, 0]
    noise = hyper.noise.numpy().reshape(1, -1)
    blended = mix.numpy() < 1
    assert 0 < blended.sum() < N
    np.testing.assert_allclose(rows.obs[blended], query[blended, :3], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(rows.actions[blended], query[blended, 3:], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(rows.rewards[blended], outcome[blended, 0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rows.next_obs[blended], query[blended, :3] + outcome[blended, 1:], rtol=1e-4, atol=1e-4)
    expected = ((variance[:, 0] + noise) * spread[:, 0] ** 2)[blended]
    np.testing.assert_allclose(made.variances[blended], expected, rtol=1e-4)
    identical(rows[~blended], anchors[~blended])
    assert (made.variances[~blended] == 0).all()


def numbers(rows, single=False):
    """Return features and targets, float64, ``(n, 1 or k, ...)``."""
    if single:
        rows = rows.map(lambda column: column.unsqueeze(1))
    z = torch.cat([rows.obs, rows.actions], dim=2).double().numpy()
    y = torch.cat([rows.rewards.unsqueeze(2).double(), rows.next_obs.double() - rows.obs.double()], dim=2).numpy()
    return z, y


def test_coefficients_and_reverted_rows_are_those_of_mixup():
    anchors, neighbors = neighborhoods(ends=0.3)
    made = fixed(coefficient=Beta(0.75))(anchors, neighbors, np.random.default_rng(5))
    plain = Mixup(Beta(0.75))(anchors, neighbors, np.random.default_rng(5))
    rows, mix, blended, expected = made.rows, made.mix, plain.rows, plain.mix
    assert torch.equal(mix, expected)
    assert torch.equal(rows.obs, blended.obs) and torch.equal(rows.actions, blended.actions)
    for name in ("terminated", "truncated"):
        assert torch.equal(getattr(rows, name), getattr(anchors, name))


def test_neighborhoods_that_cannot_be_factorized_become_linear_blends():
    anchors, neighbors = neighborhoods()
    synthesizer = fixed(weighted=True)
    synthesizer.schedule.current = synthesizer.schedule.current.map(lambda v: torch.full_like(v, torch.nan))
    made = synthesizer(anchors, neighbors, np.random.default_rng(5))
    rows, mix = made.rows, made.mix
    expected = Mixup()(anchors, neighbors, np.random.default_rng(5)).rows
    identical(rows, expected)
    assert synthesizer.statistics()["gp_failed_share"] == 1.0
    assert made.variances.isfinite().all() and made.row_weights.isfinite().all()
    spread = numbers(anchors, True)[1], numbers(neighbors)[1]
    expected = np.concatenate(spread, axis=1).var(1)
    np.testing.assert_allclose(made.variances[mix < 1], expected[mix.numpy() < 1], rtol=1e-5)


@pytest.mark.parametrize(
    ("precision", "scaling"), [("float32", "standardize"), ("float64", "minmax"), ("float32", "none")]
)
def test_degenerate_neighborhoods(precision, scaling):
    anchors, neighbors = neighborhoods(ends=0.0)
    neighbors.obs[0], neighbors.actions[0] = anchors.obs[0], anchors.actions[0]  # all duplicates
    neighbors.rewards[0], neighbors.next_obs[0] = anchors.rewards[0], anchors.next_obs[0]
    neighbors.obs[1, 1:], neighbors.actions[1, 1:] = neighbors.obs[1, :1], neighbors.actions[1, :1]  # two places only
    for rows in (anchors, neighbors):
        rows.obs[2] = 0.3  # states all equal
        rows.rewards[3] = 1.0  # a constant target
        rows.obs[4], rows.next_obs[4] = rows.obs[4] * 1e-25, rows.obs[4] * 1e-25
        rows.obs[5], rows.next_obs[5] = rows.obs[5] * 1e15, rows.next_obs[5] * 1e15
    for components in (None, 3):
        preparation, schedule = Preparation(scaling, components, precision), Schedule(how=Fit(10))
        synthesizer = GaussianProcess(Form("rbf", ard=True), preparation, schedule)
        made = synthesizer(anchors, neighbors, np.random.default_rng(0))
        rows, mix = made.rows, made.mix
        for name, column in rows.columns().items():
            assert not column.is_floating_point() or column.isfinite().all(), name
        assert made.variances.isfinite().all()
        assert synthesizer.schedule.failures == 0
        identical(rows[:1], anchors[:1])
        assert mix[0] == 1
        torch.testing.assert_close(rows.rewards[3], torch.tensor(1.0))


def test_samples_have_the_moments_of_the_posterior():
    anchors, neighbors = neighborhoods(ends=0.0)
    repeat = 2000
    one = anchors.map(lambda c: c[:1].expand(repeat, *c.shape[1:]))
    several = neighbors.map(lambda c: c[:1].expand(repeat, *c.shape[1:]))
    half = lambda size, rng: np.full(size, 0.5)
    made = fixed(coefficient=half)(one, several, np.random.default_rng(0))
    mean = made.rows
    synthesizer = fixed(coefficient=half, sample_posterior=True)
    drawn = synthesizer(one, several, np.random.default_rng(0)).rows
    z, y = numbers(anchors, True), numbers(neighbors)
    width2 = np.concatenate([z[1], y[1]], axis=1).var(1)[0]
    variance = made.variances[0].numpy() - synthesizer.schedule.current.noise.numpy().ravel() * width2
    outcome = torch.cat([drawn.rewards.unsqueeze(1), drawn.next_obs], dim=1).numpy()
    expected = torch.cat([mean.rewards.unsqueeze(1), mean.next_obs], dim=1)[0].numpy()
    np.testing.assert_allclose(outcome.mean(0), expected, atol=5 * np.sqrt(variance.max() / repeat))
    np.testing.assert_allclose(outcome.var(0), variance, rtol=0.15)


def test_weights_are_optional():
    anchors, neighbors = neighborhoods()
    assert fixed()(anchors, neighbors, np.random.default_rng(0)).row_weights is None
    weights = fixed(weighted=True)(anchors, neighbors, np.random.default_rng(0)).row_weights
    assert weights.shape == (N,) and weights.dtype == torch.float32 and weights.std() > 0
    assert float(weights.mean()) == pytest.approx(1.0, rel=1e-6)
    with pytest.raises(ValueError, match="components mix states and actions"):
        GaussianProcess(Form(composite=True), Preparation(components=2))


# -- the buffer -----------------------------------------------------------------------------------


def linear_dynamics(rows=2_000, seed=0):
    """s' = s + A s + B a with rewards linear in s and a."""
    rng = np.random.default_rng(seed)
    transition, control = rng.normal(size=(3, 3)) * 0.1, rng.normal(size=(3, 2)) * 0.1
    states, actions = rng.normal(size=(rows, 3)), rng.uniform(-1, 1, (rows, 2))
    following = states + states @ transition.T + actions @ control.T
    flags = np.zeros(rows, bool)
    rewards = states @ rng.normal(size=3) + actions @ rng.normal(size=2)
    return Transitions(states, actions, rewards, following, flags, flags), (transition, control)


LINEAR = (
    {"kernel": "rbf", "ard": False},
    {"kernel": "matern", "scaling": "minmax", "ard": True},
    {"per_target": False},
    {"hyperparameters": "rows"},
    {"optimizer": "lbfgs", "priors": True, "ard": False},
    {"hyperparameters": "local", "mean": "linear"},
)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", LINEAR, ids=str)
def test_linear_dynamics_are_recovered(arguments):
    rows, (transition, control) = linear_dynamics()
    buffer = BIER(capacity=2_000, seed=0, **arguments)
    buffer.add(rows)
    sample = buffer.sample(256)
    found = sample.transitions
    expected = found.obs + found.obs @ torch.from_numpy(transition.T) + found.actions @ torch.from_numpy(control.T)
    rmse = (found.next_obs - expected).square().mean().sqrt()
    step = (rows.next_obs - rows.obs).abs().mean()
    assert (sample.mix < 1).float().mean() > 0.9
    assert rmse < 0.01 * step, float(rmse / step)


def test_a_sample_has_variances():
    buffer = BIER(capacity=300, weighted_updates=True, seed=0)
    buffer.add(make(300, obs_shape={"observation": (3,), "goal": (2,)}))
    sample = buffer.sample(64)
    assert sample.variances.shape == (64, 6) and (sample.variances >= 0).all()
    assert torch.equal((sample.variances > 0).all(1), sample.mix < 1)
    assert sample.row_weights.shape == (64,)
    plain = NMER(capacity=300, seed=0)
    plain.add(make(300))
    assert plain.sample(8).variances is None and plain.sample(8).row_weights is None
