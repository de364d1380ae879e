"""Returns as quantiles: what is kept of target atoms, and the loss towards them."""

from __future__ import annotations

import torch
from torch import Tensor

from interreplay.learning.update import half_squares


def kept_atoms(atoms: Tensor, drop: int) -> Tensor:
    """Return the atoms ``(n, K)`` of C critics ``(C, n, q)`` in rising order, without the C·drop largest."""
    pooled = atoms.transpose(0, 1).flatten(1)
    return pooled.sort(dim=1).values[:, : pooled.shape[1] - drop * len(atoms)]


def quantile_huber(quantiles: Tensor, target: Tensor, kappa: float) -> Tensor:
    """Return the quantile Huber loss of each row, a mean over pairs (Dabney et al. 2018, arXiv:1710.10044, eq. 10).

    With u = z_k − θ_ji for quantile i of critic j and atom k, and τ_i = (i + ½)/q: |τ_i − 1[u < 0]|·H_κ(u)/κ.

    Args:
        quantiles: θ ``(C, n, q)``.
        target: z ``(n, K)``.
        kappa: κ, the error from which on the loss is linear.

    Returns:
        ``(n,)``.
    """
    q = quantiles.shape[-1]
    levels = (torch.arange(q, dtype=quantiles.dtype, device=quantiles.device) + 0.5) / q
    errors = target.unsqueeze(-2) - quantiles.unsqueeze(-1)
    slopes = (levels.unsqueeze(-1) - (errors.detach() < 0).to(errors)).abs()
    return (slopes * half_squares(errors, kappa)).mean(dim=(0, 2, 3)) / kappa
