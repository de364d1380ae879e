"""The batched posterior compared with single processes; scaling; weights."""

import itertools

import numpy as np
import pytest
import torch
from builders import by_turns
from naive_gp import predict, random_hyper

from interreplay.synthesis.gaussian_process import Form, Preparation
from interreplay.synthesis.gaussian_process.neighborhoods import fit_scale, principal_axes
from interreplay.synthesis.gaussian_process.processes import factorize, posterior
from interreplay.synthesis.gaussian_process.synthesizer import likelihood_weights

N, M, D, T, Q = 3, 6, 5, 4, 2
KERNELS = [("rbf", 2.5), ("matern", 0.5), ("matern", 1.5), ("matern", 2.5), ("rq", 2.5)]


def points(seed=1):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, M, D)), rng.normal(size=(N, M, T)), rng.normal(size=(N, Q, D))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "mean", "per_target"), by_turns(KERNELS, ["zero", "constant", "linear"], [True, False]), ids=str
)
def test_mean_and_variance_equal_the_closed_form(kernel, mean, per_target):
    (kernel, nu), (x, y, queries) = kernel, points()
    for ard, composite, b in itertools.product((True, False), (True, False), (1, N)):
        form = Form(kernel, nu, ard, mean, per_target, composite).over(D, 2)
        hyper = random_hyper(form, b, T)
        found = posterior(form, hyper, *(torch.from_numpy(v) for v in (x, y, queries)))
        mu, variance = predict(form, hyper, x, y, queries)
        np.testing.assert_allclose(found.mean, mu, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(found.variance, variance, rtol=1e-6, atol=1e-9)
        assert not found.failed.any() and not found.retried


def test_float32_is_accurate():
    x, y, queries = points()
    form = Form("rbf", ard=True, per_target=True).over(D, 2)
    hyper = random_hyper(form, N, T)
    found = posterior(form, hyper.map(torch.Tensor.float), *(torch.from_numpy(v).float() for v in (x, y, queries)))
    mu, variance = predict(form, hyper, x, y, queries)
    np.testing.assert_allclose(found.mean, mu, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-3, atol=1e-4)


def test_singular_matrices_get_jitter_or_are_reported():
    matrices = torch.eye(4).repeat(3, 2, 1, 1)
    matrices[1, 0] = 1.0  # of rank 1
    matrices[2, 1] = torch.nan
    factor, failed, retried = factorize(matrices.clone())
    assert failed.tolist() == [False, False, True] and retried == 2
    assert torch.isfinite(factor).all()
    torch.testing.assert_close(factor[0, 0], torch.eye(4))
    torch.testing.assert_close(factor[1, 0] @ factor[1, 0].T, matrices[1, 0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", ["standardize", "minmax", "none"])
def test_scaling_and_back(kind):
    x = torch.from_numpy(points()[0]).float() * 100 + 7
    x[:, :, 1], x[0, :, 2] = 0.1, 1e-30  # constants
    x[0, 1, 3:] = x[0, 0, 3:]
    scale = fit_scale(x, kind)
    scaled = scale.apply(x)
    torch.testing.assert_close(scale.undo(scaled), x)
    assert scaled.isfinite().all()
    varying = scaled[:, :, [0, 3, 4]]
    if kind == "standardize":
        torch.testing.assert_close(varying.mean(1), torch.zeros(N, 3), rtol=0, atol=1e-5)
        torch.testing.assert_close(varying.std(1, correction=0), torch.ones(N, 3))
    elif kind == "minmax":
        torch.testing.assert_close(varying.amin(1), torch.zeros(N, 3))
        torch.testing.assert_close(varying.amax(1), torch.ones(N, 3))
    if kind != "none":
        assert scaled[:, :, 1].abs().max() < 1e-6 and scaled[0, :, 2].abs().max() < 1e-6


def test_features_far_from_zero_keep_their_differences():
    z = torch.from_numpy(points()[0])
    near = Preparation()(z, torch.zeros(N, M, 1))
    far = Preparation()(z + 2.0**30, torch.zeros(N, M, 1))
    torch.testing.assert_close(far.x, near.x, rtol=1e-4, atol=1e-4)


def test_principal_axes_are_eigenvectors_of_the_covariance():
    x = torch.from_numpy(points()[0])
    axes = principal_axes(x, 3)
    for i in range(N):
        values, vectors = np.linalg.eigh(np.cov(x[i].numpy().T))
        expected = vectors[:, ::-1][:, :3]
        np.testing.assert_allclose(np.abs((axes[i].numpy() * expected).sum(0)), 1.0, rtol=1e-6)
        scores = (x[i] - x[i].mean(0)) @ axes[i]
        np.testing.assert_allclose(scores.var(0), values[::-1][:3], rtol=1e-6)
    assert (axes.gather(1, axes.abs().argmax(1, keepdim=True)) > 0).all()


def test_all_principal_components_change_nothing_without_ard():
    x, y, _ = (torch.from_numpy(v) for v in points())
    whole, turned = Preparation(precision="float64"), Preparation(components=D, precision="float64")
    form = Form("rbf").over(D, 2)
    hyper = random_hyper(form, 1, T)
    offsets = (x[:, 1:2] - x[:, :1]) / 2
    one, other = whole(x, y), turned(x, y)
    torch.testing.assert_close(
        posterior(form, hyper, one.x, one.y, one.place(offsets))[:2],
        posterior(form, hyper, other.x, other.y, other.place(offsets))[:2],
    )


def test_weights_equal_their_definition():
    v = np.random.default_rng(0).exponential(size=(8, 3))
    g = np.exp(np.mean(-0.5 * np.log(2 * np.pi * v), axis=1))
    share = 1 / (1 + np.exp(-g))
    np.testing.assert_allclose(likelihood_weights(torch.from_numpy(v)), 8 * share / share.sum(), rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_have_mean_1_for_tiny_and_huge_variances(dtype):
    v = torch.tensor([[0.0, 0.0], [1e-38, 1.0], [1.0, 1.0], [1e38, 1e38], [torch.inf, 0.0], [torch.inf, torch.inf]])
    weights = likelihood_weights(v.to(dtype))
    assert weights.isfinite().all() and weights.dtype == dtype
    assert float(weights.double().mean()) == pytest.approx(1.0, rel=1e-6)
    assert weights[0] == weights.max() and weights[-1] == weights.min()
    assert float(weights.max() / weights.min()) == pytest.approx(2.0, rel=1e-5)
