"""Columns that are standardized, and how a stated spread compares with errors."""

from __future__ import annotations

import torch
from torch import Tensor


class Scale:
    """Mean and standard deviation of columns, by which they are standardized.

    Args:
        mean: ``(d,)``.
        std: ``(d,)``; 0 of columns that do not vary, which are themselves less their mean, and the mean when undone.
    """

    def __init__(self, mean: Tensor, std: Tensor):
        self.mean, self.std = mean, std
        self._divisor = torch.where(std > 0, std, 1.0)

    @classmethod
    def of(cls, rows: Tensor) -> Scale:
        """Return that of rows ``(n, d)``."""
        exact = rows.double()
        mean, std = exact.mean(dim=0), exact.std(dim=0, correction=0)
        varies = std > 1e-8 + 1e-6 * mean.abs()
        return cls(mean.to(rows.dtype), torch.where(varies, std, 0.0).to(rows.dtype))

    def apply(self, rows: Tensor) -> Tensor:
        return (rows - self.mean) / self._divisor

    def undo(self, rows: Tensor) -> Tensor:
        return rows * self.std + self.mean


def calibration(means: Tensor, variances: Tensor, targets: Tensor) -> dict[str, float]:
    """Return how the spread that a model states compares with its error, both of rows ``(n, d)``.

    Returns:
        ``error_over_spread``: root of mean squared error over mean variance, 1 where they agree, more where the model
        is too sure; ``spread_correlation``: the rank correlation, over rows, of spread and error.
    """
    squared = (means - targets).square()
    ratio = float((squared.mean() / variances.mean().clamp(min=1e-30)).sqrt())
    ranks = [_ranks(values.mean(dim=1)) for values in (squared, variances)]
    apart = [rank - rank.mean() for rank in ranks]
    scale = float(apart[0].norm() * apart[1].norm())
    return {"error_over_spread": ratio, "spread_correlation": float(apart[0] @ apart[1]) / scale if scale else 0.0}


def _ranks(values: Tensor) -> Tensor:
    ranks = torch.empty(len(values), dtype=torch.float64)
    ranks[torch.argsort(values.cpu())] = torch.arange(len(values), dtype=torch.float64)
    return ranks
