"""Samples of a Gaussian squashed by tanh, with their log density."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

LOG_STD_RANGE = (-20.0, 2.0)
"""Bounds of the log standard deviation (Haarnoja et al. 2018, arXiv:1812.05905, appendix and code)."""


class SquashedGaussianSample:
    """a = tanh(u), u = μ + σ·ε, and log π(a), as SAC's policy (Haarnoja et al. 2018, arXiv:1801.01290, appendix C).

    log π = Σ log N(u; μ, σ) − log(1 − tanh² u), the last term as 2·(log 2 − u − softplus(−2u)), which stays exact
    for large |u|.

    Args:
        parameters: [μ; log σ] ``(n, 2d)``, log σ not yet clamped to `LOG_STD_RANGE`.
        noise: ε ``(n, d)``, standard normal.

    Attributes:
        actions: ``(n, d)``.
        log_probs: ``(n,)``.
        log_std: log σ as it was given ``(n, d)``.
        spread: σ·ε ``(n, d)``.
    """

    def __init__(self, parameters: Tensor, noise: Tensor):
        mean, self.log_std = parameters.chunk(2, dim=-1)
        log_std = self.log_std.clamp(*LOG_STD_RANGE)
        self.spread = log_std.exp() * noise
        raw = mean + self.spread
        self.actions = torch.tanh(raw)
        constant = 2.0 * math.log(2.0) + 0.5 * math.log(2.0 * math.pi)
        squash = 2.0 * (nn.functional.softplus(-2.0 * raw) + raw)
        self.log_probs = (squash - log_std - 0.5 * noise.square() - constant).sum(dim=-1)
