"""Weights of synthetic rows by how sure the Gaussian processes are of them."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def likelihood_weights(variances: Tensor) -> Tensor:
    """Return weights w = n·σ(g)/Σσ(g) ``(n,)``, mean 1, with log g = mean over targets of −½ log(2πv).

    g is the geometric mean of the predictive densities at their means. σ(g) is between ½ and 1, so no row counts more
    than twice as much as another. Variances of 0 (a row that is stored as it is) and infinity are fine.

    Args:
        variances: v ``(n, T)``, at least 0.
    """
    bounded = variances.double().clamp(1e-200, 1e200)
    log_density = (-0.5 * torch.log(2.0 * math.pi * bounded)).mean(dim=1)
    share = torch.sigmoid(log_density.exp())
    return (share * (len(share) / share.sum())).to(variances.dtype)
