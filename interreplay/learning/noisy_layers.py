"""Layers whose weights have noise of a learned size."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

Factors = tuple[Tensor, Tensor]
"""f(ε) of a layer's inputs ``(in,)`` and outputs ``(out,)``, whose products are the noise of its weights."""


class NoisyLinear(nn.Module):
    """A linear layer with factorized Gaussian noise (Fortunato et al. 2018, arXiv:1706.10295).

    y = (µ_w + σ_w⊙ε_w)·x + µ_b + σ_b⊙ε_b, with ε_w = f(ε_out)·f(ε_in)ᵀ, ε_b = f(ε_out), f(x) = sgn(x)·√|x|. Noise is
    an argument of each pass: the layer keeps none, and is quiet where none is given. Means start uniform within ±1/√in,
    sizes at sigma0/√in, for weights and for biases.

    Args:
        inputs: Numbers that come in.
        outputs: Numbers that come out.
        sigma0: Size of the noise at the start.
    """

    def __init__(self, inputs: int, outputs: int, sigma0: float = 0.5):
        super().__init__()
        bound = 1.0 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), sigma0 * bound))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), sigma0 * bound))

    def draw(self, rng: torch.Generator) -> Factors:
        """Draw noise for one pass."""
        outputs, inputs = self.weight.shape
        both = torch.randn(inputs + outputs, generator=rng, device=self.weight.device, dtype=self.weight.dtype)
        both = both.sign() * both.abs().sqrt_()
        return both[:inputs], both[inputs:]

    def forward(self, rows: Tensor, noise: Factors | None = None) -> Tensor:
        """Map ``(n, in)`` to ``(n, out)``, all rows with the same noise, or with none."""
        quiet = nn.functional.linear(rows, self.weight, self.bias)
        if noise is None:
            return quiet
        of_inputs, of_outputs = noise
        return torch.addcmul(
            quiet, nn.functional.linear(rows * of_inputs, self.weight_sigma, self.bias_sigma), of_outputs
        )
