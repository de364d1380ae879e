"""Fits by marginal likelihood, and their schedules."""

import numpy as np
import pytest
import torch
from builders import make
from naive_gp import log_evidence, random_hyper

from interreplay import ReplayBuffer
from interreplay.synthesis.gaussian_process import Fit, Form, Hyperparameters, Preparation, Schedule
from interreplay.synthesis.gaussian_process.fit import NOISE_FLOOR, Model, fit
from interreplay.synthesis.gaussian_process.neighborhoods import stack_targets
from interreplay.transitions import features

N, M, D, T = 2, 6, 4, 3
FORMS = {
    "rbf ard linear per target": Form("rbf", ard=True, mean="linear", per_target=True),
    "matern composite constant": Form("matern", 1.5, mean="constant", composite=True),
    "rq ard composite": Form("rq", ard=True, composite=True),
    "rq per target": Form("rq", per_target=True),
}


@pytest.fixture(params=FORMS, name="form")
def _form(request):
    return FORMS[request.param].over(D, 1)


def points(seed=1, n=N, m=M):
    g = torch.Generator().manual_seed(seed)
    return (torch.randn(n, m, d, generator=g, dtype=torch.float64) for d in (D, T))


def initial(form, dtype=torch.float64):
    return Hyperparameters.make_initial(form, T, 1.0, dtype)


def log_posterior(model):
    return model.log_posterior(model.values()).sum()


def test_the_evidence_is_that_of_the_formulas(form):
    x, y = points()
    hyper = random_hyper(form, N, T)
    model = Model(form, hyper, x, y)
    torch.testing.assert_close(model.hyper(model.values()).as_dict(), hyper.as_dict())
    assert log_posterior(model).item() == pytest.approx(log_evidence(form, hyper, x.numpy(), y.numpy()), rel=1e-6)


def test_priors_count_once_per_kernel():
    x, y = points()
    form = Form("rbf").over(D, 1)
    with_priors, without = (Model(form, initial(form), x, y, priors) for priors in (True, False))
    extra = (log_posterior(with_priors) - log_posterior(without)).item()
    gamma = torch.distributions.Gamma
    expected = N * sum(
        gamma(a, b).log_prob(torch.tensor(v, dtype=torch.float64)).item()
        for a, b, v in ((3.0, 1.0 / D**0.5, 3 * D**0.5), (2.0, 2.0 / 9, 9.0), (1.1, 10.0, 0.02))
    )
    assert extra == pytest.approx(expected, rel=1e-5)


def test_duplicates_have_finite_gradients():
    x, y = points()
    x[:, 1] = x[:, 0]
    for nu in (0.5, 1.5, 2.5):
        form = Form("matern", nu).over(D, 1)
        model = Model(form, initial(form), x, y)
        log_posterior(model).backward()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("method", ["adam", "lbfgs"])
def test_fits_improve_and_respect_the_noise_floor(form, method):
    x, y = points()
    start = initial(form)
    generator = torch.get_rng_state()
    found = fit(Fit(40, method), form, start, x, y)
    assert torch.equal(torch.get_rng_state(), generator)
    evidence = [log_evidence(form, h, x.numpy(), y.numpy()) for h in (start, found.hyper)]
    assert evidence[1] > evidence[0] + 0.1 and found.failures == 0
    assert (found.hyper.noise >= NOISE_FLOOR).all() and len(found.hyper.noise) == N


def test_neighborhoods_are_fitted_separately(form):
    x, y = points()
    both = fit(Fit(5), form, initial(form), x, y).hyper
    for i in range(N):
        alone = fit(Fit(5), form, initial(form), x[i : i + 1], y[i : i + 1]).hyper
        for name, value in alone.as_dict().items():
            torch.testing.assert_close(value, both.as_dict()[name][i : i + 1], msg=name)


def test_a_known_length_scale_is_found():
    g = torch.Generator().manual_seed(0)
    x = torch.rand(1, 150, 1, generator=g, dtype=torch.float64) * 10
    form = Form("rbf").over(1, 0)
    kernel = torch.exp(-0.5 * (x - x.mT).square() / 0.7**2) + 0.01 * torch.eye(150, dtype=torch.float64)
    y = torch.linalg.cholesky(kernel) @ torch.randn(150, 4, generator=g, dtype=torch.float64)
    start = Hyperparameters.make_initial(form, 4, 1.0, torch.float64)
    found = fit(Fit(60, "lbfgs"), form, start, x, y).hyper
    assert found.lengthscale.item() == pytest.approx(0.7, rel=0.1)
    assert found.noise.item() == pytest.approx(0.01, rel=0.2)


def test_a_non_finite_fit_is_replaced_and_counted():
    x, y = points()
    form = Form("rbf").over(D, 1)
    y[1, 0, 0] = torch.inf
    found = fit(Fit(3), form, initial(form), x, y)
    assert found.failures >= 1 and found.hyper.finite().all()
    torch.testing.assert_close(found.hyper.lengthscale[1:], initial(form).lengthscale)


# -- schedules ------------------------------------------------------------------------------------


def batch(seed, n=5):
    return Preparation(precision="float64")(*points(seed, n))


def close(one, other):
    assert one.as_dict().keys() == other.as_dict().keys()
    torch.testing.assert_close(one.as_dict(), other.as_dict())


def test_local_hyperparameters_are_those_of_each_neighborhood():
    form, schedule, rows = Form("rq").over(D, 1), Schedule("local", Fit(4), warm_start=False), batch(0)
    for _ in range(2):
        found = schedule(form, rows)
    close(found, fit(Fit(4), form, initial(form), rows.x, rows.y).hyper)
    assert schedule.fits == schedule.batches == 2


@pytest.mark.parametrize("warm", [False, True])
def test_monte_carlo_hyperparameters_are_means_and_are_refitted_when_due(warm):
    form, schedule = Form("rq").over(D, 1), Schedule("monte_carlo", Fit(4), 3, every=4, warm_start=warm)
    found = [schedule(form, batch(seed)) for seed in range(6)]
    first, second = batch(0), batch(4)
    expected = fit(Fit(4), form, initial(form), first.x[:3], first.y[:3]).hyper.average()
    for number in range(4):
        close(found[number], expected)
    start = expected if warm else initial(form)
    expected = fit(Fit(4), form, start, second.x[:3], second.y[:3]).hyper.average()
    close(found[4], expected)
    close(found[5], expected)
    assert schedule.fits == 2


def test_averages_of_positive_hyperparameters_are_geometric():
    form = Form("rq", mean="linear").over(D, 1)
    hyper = random_hyper(form, 4, T)
    mean = hyper.average().as_dict()
    for name, value in hyper.as_dict().items():
        one = value.numpy()
        expected = one.mean(0) if name in ("constant", "slope") else one.prod(0) ** 0.25
        np.testing.assert_allclose(mean[name][0], expected, rtol=1e-12)


def test_hyperparameters_of_random_rows_are_those_of_rows_that_are_stored():
    buffer = ReplayBuffer(100, seed=0)
    buffer.add(make(60))
    form, schedule, preparation = Form("rbf").over(5, 2), Schedule("rows", Fit(3), 20, every=3), Preparation()
    schedule.observe(buffer.storage, preparation, np.random.default_rng(4), buffer.view)
    sampled = buffer.storage[torch.arange(10).view(2, 5)]
    found = schedule(form, preparation(features(sampled), stack_targets(sampled)))
    slots = np.random.default_rng(4).choice(60, 20, replace=False)
    rows = buffer.storage[torch.from_numpy(slots)]
    scaled = preparation(features(rows)[None], stack_targets(rows)[None])
    start = Hyperparameters.make_initial(form, 4, 1.0, torch.float32)
    close(found, fit(Fit(3), form, start, scaled.x, scaled.y).hyper)
