"""Gaussian processes in numpy and float64, one at a time by the formulas, as references for the batched ones."""

import numpy as np
import torch
from scipy.special import gamma, kv

from interreplay.synthesis.gaussian_process import Form, Hyperparameters


def random_hyper(form: Form, b: int, targets: int, seed: int = 0) -> Hyperparameters:
    """Return different hyperparameters for every neighborhood, target and feature."""
    g = torch.Generator().manual_seed(seed)
    groups, d = form.groups(targets), form.features

    def positive(*shape):
        return torch.rand(*shape, generator=g, dtype=torch.float64) * 2.0 + 0.5

    return Hyperparameters(
        lengthscale=positive(b, groups, d) if form.ard else same_in_blocks(form, positive(b, groups, 2)),
        outputscale=positive(b, groups),
        noise=positive(b, groups) * 0.05,
        alpha=positive(b, groups, len(form.blocks)),
        constant=torch.zeros(b, targets, dtype=torch.float64) if form.mean == "zero" else positive(b, targets),
        slope=positive(b, targets, d) if form.mean == "linear" else None,
    )


def same_in_blocks(form: Form, lengths: torch.Tensor) -> torch.Tensor:
    return torch.cat([lengths[..., i : i + 1].expand(-1, -1, w) for i, w in enumerate(form.blocks)], dim=2)


def kappa(form: Form, x: np.ndarray, z: np.ndarray, lengthscale: np.ndarray, alpha: np.ndarray) -> float:
    """Return κ of two points; Matérn by its Bessel function."""
    value = 1.0
    for number, block in enumerate(form.slices):
        r = np.sqrt((((x[block] - z[block]) / lengthscale[block]) ** 2).sum())
        if form.kernel == "rbf":
            value *= np.exp(-0.5 * r**2)
        elif form.kernel == "rq":
            value *= (1 + r**2 / (2 * alpha[number])) ** -alpha[number]
        elif r > 0:
            s = np.sqrt(2 * form.nu) * r
            value *= 2 ** (1 - form.nu) / gamma(form.nu) * s**form.nu * kv(form.nu, s)
    return value


def process(form: Form, hyper: Hyperparameters, i: int, t: int):
    """Return noisy covariance, covariance and mean function of the process of target t in neighborhood i."""
    h = {name: value.numpy() for name, value in hyper.as_dict().items()}
    b, g = i if len(hyper.noise) > 1 else 0, t if form.per_target else 0

    def k(xs, zs):
        pairs = [[kappa(form, x, z, h["lengthscale"][b, g], h["alpha"][b, g]) for z in zs] for x in xs]
        return h["outputscale"][b, g] * np.array(pairs)

    def mu(xs):
        return h["constant"][b, t] + (xs @ h["slope"][b, t] if "slope" in h else 0.0)

    return k, mu, h["noise"][b, g]


def predict(form: Form, hyper: Hyperparameters, x, y, queries):
    """Return posterior means and variances ``(n, q, T)``, one process at a time, by matrix inversion."""
    n, targets = len(x), y.shape[2]
    mean, variance = np.empty((n, queries.shape[1], targets)), np.empty((n, queries.shape[1], targets))
    for i in range(n):
        for t in range(targets):
            k, mu, noise = process(form, hyper, i, t)
            inverse = np.linalg.inv(k(x[i], x[i]) + noise * np.eye(len(x[i])))
            cross = k(queries[i], x[i])
            mean[i, :, t] = mu(queries[i]) + cross @ inverse @ (y[i, :, t] - mu(x[i]))
            variance[i, :, t] = np.diag(k(queries[i], queries[i]) - cross @ inverse @ cross.T)
    return mean, variance


def log_evidence(form: Form, hyper: Hyperparameters, x, y) -> float:
    """Return Σ log N(y; μ, K + σ_n²I) over all processes."""
    total = 0.0
    for i in range(len(x)):
        for t in range(y.shape[2]):
            k, mu, noise = process(form, hyper, i, t)
            matrix, rest = k(x[i], x[i]) + noise * np.eye(len(x[i])), y[i, :, t] - mu(x[i])
            logdet = np.linalg.slogdet(2 * np.pi * matrix)[1]
            total += -0.5 * (rest @ np.linalg.solve(matrix, rest) + logdet)
    return total
