"""The backward pass of a sample of a squashed Gaussian."""

from __future__ import annotations

import torch
from torch import Tensor

from interreplay.learning.squashed_gaussian import LOG_STD_RANGE, SquashedGaussianSample


def parameter_gradients(sample: SquashedGaussianSample, of_actions: Tensor, of_log_probs: Tensor) -> Tensor:
    """Return the gradient of [μ; log σ] ``(n, 2d)``.

    With g of a and h of log π that of μ is g·(1 − a²) + 2a·h, for ∂/∂u of the last term is −2a; that of log σ is this
    times σ·ε, less h, and none where log σ was clamped.

    Args:
        sample: Whose parameters.
        of_actions: g ``(n, d)``.
        of_log_probs: h ``(n,)``.
    """
    h = of_log_probs.unsqueeze(-1)
    of_mean = torch.addcmul(of_actions, sample.actions, 2.0 * h - of_actions * sample.actions)
    inside = (sample.log_std >= LOG_STD_RANGE[0]) & (sample.log_std <= LOG_STD_RANGE[1])
    return torch.cat([of_mean, (of_mean * sample.spread - h) * inside], dim=-1)
