"""Losses of an ensemble, one per member."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from interreplay.experience.learned_models.networks import Networks

BOUND_WEIGHT = 0.01
"""Weight of the spread of the log-variance bounds in the loss."""


def log_variances(raw: Tensor, highest: Tensor, lowest: Tensor) -> Tensor:
    """Return log variances ``(m, n, d)``, softly clamped between bounds ``(m, 1, d)`` (Chua et al. 2018).

    h − softplus(h − x) is smooth and below h for every x; the lower bound is applied in the same way.
    """
    below = highest - functional.softplus(highest - raw)
    return lowest + functional.softplus(below - lowest)


def ensemble_losses(
    networks: Networks, rows: Tensor, targets: Tensor, dropped: list[Tensor | None] | None = None
) -> Tensor:
    """Return the loss of each network ``(m,)``, without weight decay.

    Networks with log-variance bounds minimize the Gaussian negative log-likelihood, the mean over rows and columns of
    (μ − y)²·e^(−v) + v, plus .01 times the sum of the largest minus the smallest log variances (Janner et al. 2019,
    arXiv:1906.08253). Other networks minimize the mean squared error.

    Args:
        networks: m networks.
        rows: ``(m, n, in)``.
        targets: ``(m, n, d)``.
        dropped: Dropout factors, see `Networks.draw_dropped`.
    """
    outputs = networks.forward(rows, dropped)
    if not networks.bounds:
        return (outputs - targets).square().mean(dim=(1, 2))
    highest, lowest = networks.bounds
    means, raw = outputs.chunk(2, dim=-1)
    variances = log_variances(raw, highest, lowest)
    errors = (means - targets).square() * (-variances).exp() + variances
    return errors.mean(dim=(1, 2)) + BOUND_WEIGHT * (highest - lowest).sum(dim=(1, 2))
