"""The quantile Huber loss with its gradient by hand."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class QuantileHuber(torch.autograd.Function):
    """`interreplay.learning.tqc.quantile_huber` as a function of autograd.

    With c = u within ±κ, H_κ(u) = c·(u − ½c), and its derivative is c; both are weighted by τ_i where u > 0 and by
    1 − τ_i where u < 0.
    """

    @staticmethod
    def forward(ctx: Any, quantiles: Tensor, target: Tensor, kappa: float) -> Tensor:
        """Return the loss of each row ``(n,)`` for quantiles ``(C, n, q)`` and target atoms ``(n, K)``."""
        critics, n, q = quantiles.shape
        levels = (torch.arange(q, dtype=quantiles.dtype, device=quantiles.device) + 0.5) / q
        errors = target.unsqueeze(-2) - quantiles.unsqueeze(-1)
        slopes = errors.clamp(-kappa, kappa)
        errors.sub_(slopes, alpha=0.5)
        slopes = nn.functional.prelu(slopes.flatten(0, 1), (1.0 - levels) / levels).view_as(errors)
        scale = 1.0 / (critics * q * target.shape[-1] * kappa)
        ctx.save_for_backward(slopes.sum(dim=-1) * levels * -scale)
        return (errors.mul_(slopes).sum(dim=(0, 3)) * levels).sum(dim=-1) * scale

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor, None, None]:
        """Return the gradient of the quantiles."""
        return ctx.saved_tensors[0] * gradients.unsqueeze(-1), None, None
