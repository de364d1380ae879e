"""Standardization of columns, and the calibration of predicted variances."""

from __future__ import annotations

import torch
from torch import Tensor


class Scale:
    """Mean and standard deviation of columns, for standardizing them.

    Args:
        mean: ``(d,)``.
        std: ``(d,)``; 0 for constant columns, which are only centered, and which `undo` sets to the mean.
    """

    def __init__(self, mean: Tensor, std: Tensor):
        self.mean = mean
        self.std = std
        self._divisor = torch.where(std > 0, std, 1.0)

    @classmethod
    def of(cls, rows: Tensor) -> Scale:
        """Return the scale of rows ``(n, d)``."""
        exact = rows.double()
        mean = exact.mean(dim=0)
        std = exact.std(dim=0, correction=0)
        varies = std > 1e-8 + 1e-6 * mean.abs()
        return cls(mean.to(rows.dtype), torch.where(varies, std, 0.0).to(rows.dtype))

    def apply(self, rows: Tensor) -> Tensor:
        return (rows - self.mean) / self._divisor

    def undo(self, rows: Tensor) -> Tensor:
        return rows * self.std + self.mean


def calibration(means: Tensor, variances: Tensor, targets: Tensor) -> dict[str, float]:
    """Compare predicted variances ``(n, d)`` with the errors of predicted means ``(n, d)``.

    Returns:
        ``error_over_spread``: square root of mean squared error over mean variance, 1 for a calibrated model, more for
        an overconfident one; ``spread_correlation``: rank correlation, over rows, of variance and squared error.
    """
    squared = (means - targets).square()
    ratio = float((squared.mean() / variances.mean().clamp(min=1e-30)).sqrt())
    errors = _centered_ranks(squared.mean(dim=1))
    spreads = _centered_ranks(variances.mean(dim=1))
    norm = float(errors.norm() * spreads.norm())
    correlation = float(errors @ spreads) / norm if norm else 0.0
    return {"error_over_spread": ratio, "spread_correlation": correlation}


def _centered_ranks(values: Tensor) -> Tensor:
    ranks = torch.empty(len(values), dtype=torch.float64)
    ranks[torch.argsort(values.cpu())] = torch.arange(len(values), dtype=torch.float64)
    return ranks - ranks.mean()
