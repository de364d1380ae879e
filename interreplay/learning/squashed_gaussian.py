"""Draws from a Gaussian squashed by tanh, with their log density and its gradients."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

LOG_STD_RANGE = (-20.0, 2.0)
"""Bounds of the log standard deviation (Haarnoja et al. 2018, arXiv:1812.05905, appendix and code)."""


class Draw:
    """a = tanh(u), u = μ + σ·ε, and log π(a), as SAC's policy (Haarnoja et al. 2018, arXiv:1801.01290, appendix C).

    log π = Σ log N(u; μ, σ) − log(1 − tanh² u), the last term as 2·(log 2 − u − softplus(−2u)), which stays exact
    for large |u|.

    Args:
        parameters: [μ; log σ] ``(n, 2d)``, log σ not yet clamped to `LOG_STD_RANGE`.
        noise: ε ``(n, d)``, standard normal.

    Attributes:
        actions: ``(n, d)``.
        log_probs: ``(n,)``.
    """

    def __init__(self, parameters: Tensor, noise: Tensor):
        mean, self._log_std = parameters.chunk(2, dim=-1)
        log_std = self._log_std.clamp(*LOG_STD_RANGE)
        self._spread = log_std.exp() * noise
        raw = mean + self._spread
        self.actions = torch.tanh(raw)
        constant = 2.0 * math.log(2.0) + 0.5 * math.log(2.0 * math.pi)
        squash = 2.0 * (nn.functional.softplus(-2.0 * raw) + raw)
        self.log_probs = (squash - log_std - 0.5 * noise.square() - constant).sum(dim=-1)

    def backward(self, of_actions: Tensor, of_log_probs: Tensor) -> Tensor:
        """The gradient of [μ; log σ] ``(n, 2d)``.

        With g of a and h of log π that of μ is g·(1 − a²) + 2a·h, for ∂/∂u of the last term is −2a; that of log σ
        is this times σ·ε, less h, and none where log σ was clamped.

        Args:
            of_actions: g ``(n, d)``.
            of_log_probs: h ``(n,)``.
        """
        h = of_log_probs.unsqueeze(-1)
        of_mean = torch.addcmul(of_actions, self.actions, 2.0 * h - of_actions * self.actions)
        inside = (self._log_std >= LOG_STD_RANGE[0]) & (self._log_std <= LOG_STD_RANGE[1])
        return torch.cat([of_mean, (of_mean * self._spread - h) * inside], dim=-1)
