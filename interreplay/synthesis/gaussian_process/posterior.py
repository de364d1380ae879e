"""The exact posterior of many small Gaussian processes, in one batch of Cholesky factorizations.

Rasmussen & Williams 2006, algorithm 2.1. With one kernel for all targets there is one factorization per neighborhood.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from interreplay.synthesis.gaussian_process.kernels import Form, Hyperparameters, covariance

JITTERS = (1e-6, 1e-5, 1e-4)
"""Values to add, one after another, to the diagonal of a singular matrix, as shares of its mean diagonal."""


class Posterior(NamedTuple):
    """Predictions of T targets at q points for each of n neighborhoods.

    Attributes:
        mean: ``(n, q, T)``.
        variance: Variance of the function without the noise ``(n, q, T)``, at least 0.
        noise: σ_n² of each target ``(n or 1, 1, T or 1)``.
        failed: Neighborhoods ``(n,)`` whose matrix could not be factorized; their predictions are meaningless.
        retried: Number of matrices that required jitter.
    """

    mean: Tensor
    variance: Tensor
    noise: Tensor
    failed: Tensor
    retried: int


def posterior(form: Form, hyper: Hyperparameters, x: Tensor, y: Tensor, queries: Tensor) -> Posterior:
    """Condition on m points per neighborhood and predict at q others.

    Args:
        form: Form of the processes.
        hyper: One set per neighborhood, or one for all.
        x: Features ``(n, m, d)``.
        y: Targets ``(n, m, T)``.
        queries: ``(n, q, d)``.
    """
    n, m, d = x.shape
    q = queries.shape[1]
    targets = y.shape[2]
    rows, columns = _pairs(m, x.device)
    among = (x.index_select(1, rows) - x.index_select(1, columns)).square_()
    across = (x.unsqueeze(2) - queries.unsqueeze(1)).square_().view(n, m * q, d)
    scale = hyper.outputscale.unsqueeze(-1)
    kernel = covariance(form, hyper, torch.cat([among, across], dim=1)) * scale
    groups = kernel.shape[1]
    matrix = kernel.new_zeros(n, groups, m * m).index_copy_(2, rows * m + columns, kernel[..., : len(rows)])
    matrix = matrix.view(n, groups, m, m)
    matrix.diagonal(dim1=2, dim2=3).copy_(scale + hyper.noise.unsqueeze(-1))
    factor, failed, retried = factorize(matrix)
    residual = (y - prior_mean(hyper, x)).view(n, m, groups, targets // groups).transpose(1, 2)
    cross = kernel[..., len(rows) :].reshape(n, groups, m, q)
    solved = torch.linalg.solve_triangular(factor, torch.cat([cross, residual], dim=3), upper=False)
    to_query = solved[..., :q]
    to_data = solved[..., q:]
    mean = (to_query.mT @ to_data).transpose(1, 2).reshape(n, q, targets) + prior_mean(hyper, queries)
    variance = (scale - to_query.square().sum(2)).clamp_(min=0.0).mT.expand(n, q, -1)
    return Posterior(
        mean=mean,
        variance=variance.expand(n, q, targets),
        noise=hyper.noise.unsqueeze(1),
        failed=failed,
        retried=retried,
    )


def prior_mean(hyper: Hyperparameters, x: Tensor) -> Tensor:
    """Return the prior mean of points ``(n, m, d)``, ``(n, m, T)`` or broadcasting to it."""
    constant = hyper.constant.unsqueeze(1)
    return constant if hyper.slope is None else constant + x @ hyper.slope.mT


def factorize(matrices: Tensor) -> tuple[Tensor, Tensor, int]:
    """Return Cholesky factors of matrices ``(n, G, m, m)``; only their lower triangles are read.

    Returns:
        The factors, which of the n failed despite jitter ``(n,)``, and the number of matrices that required jitter. The
        factor of a failed matrix is the identity.
    """
    factor, info = torch.linalg.cholesky_ex(matrices)
    bad = info != 0
    retried = int(bad.sum())
    if not retried:
        return factor, bad.any(1), 0
    factor = torch.where(bad[..., None, None], torch.eye(matrices.shape[-1]).to(factor), factor)
    for jitter in JITTERS:
        again = matrices[bad]
        diagonal = again.diagonal(dim1=1, dim2=2)
        diagonal += jitter * diagonal.mean(1, keepdim=True)
        found, info = torch.linalg.cholesky_ex(again)
        places = bad.nonzero()[info == 0]
        factor[places[:, 0], places[:, 1]] = found[info == 0]
        bad[places[:, 0], places[:, 1]] = False
        if not bad.any():
            break
    return factor, bad.any(1), retried


@lru_cache(maxsize=16)
def _pairs(m: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return rows and columns of the elements below the diagonal of an m×m matrix."""
    index = torch.tril_indices(m, m, offset=-1, device=device)
    return index[0], index[1]
