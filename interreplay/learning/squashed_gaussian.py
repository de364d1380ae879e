"""Draws from a Gaussian squashed by tanh, with their log density, as one step of autograd."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LOG_STD_RANGE = (-20.0, 2.0)
"""Bounds of the log standard deviation (Haarnoja et al. 2018, arXiv:1812.05905, appendix and code)."""


class SquashedGaussian(torch.autograd.Function):
    """a = tanh(u), u = μ + σ·ε, and log π(a), as SAC's policy (Haarnoja et al. 2018, arXiv:1801.01290, appendix C).

    log π = Σ log N(u; μ, σ) − log(1 − tanh² u), the last term as 2·(log 2 − u − softplus(−2u)), which stays exact
    for large |u|. With ∂/∂u of that term −2a the gradients are closed: for gradients g of a and h of log π
    that of μ is g·(1 − a²) + 2a·h, that of log σ is this times σ·ε, less h, and none where log σ was clamped.
    """

    @staticmethod
    def forward(ctx: Any, parameters: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions ``(n, d)`` and log densities ``(n,)``.

        Args:
            ctx: Autograd's.
            parameters: [μ; log σ] ``(n, 2d)``, log σ not yet clamped to `LOG_STD_RANGE`.
            noise: ε ``(n, d)``, standard normal.
        """
        mean, raw_log_std = parameters.chunk(2, dim=-1)
        log_std = raw_log_std.clamp(*LOG_STD_RANGE)
        spread = log_std.exp().mul_(noise)
        raw = mean + spread
        actions = torch.tanh(raw)
        constant = 2.0 * math.log(2.0) + 0.5 * math.log(2.0 * math.pi)
        squash = nn.functional.softplus(-2.0 * raw).add_(raw).mul_(2.0)
        log_probs = squash.sub_(log_std).addcmul_(noise, noise, value=-0.5).sub_(constant).sum(dim=-1)
        ctx.save_for_backward(actions, spread, raw_log_std)
        return actions, log_probs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_actions: Tensor, of_log_probs: Tensor) -> tuple[Tensor, None]:
        """The gradient of [μ; log σ]."""
        actions, spread, raw_log_std = ctx.saved_tensors
        of_log_probs = of_log_probs.unsqueeze(-1)
        of_mean = torch.addcmul(of_actions, actions, 2.0 * of_log_probs - of_actions * actions)
        inside = (raw_log_std >= LOG_STD_RANGE[0]) & (raw_log_std <= LOG_STD_RANGE[1])
        return torch.cat([of_mean, (of_mean * spread - of_log_probs) * inside], dim=-1), None
