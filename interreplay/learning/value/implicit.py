"""Implicit quantile networks: the quantile function of the return (Dabney et al. 2018, arXiv:1806.06923)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from interreplay.learning.losses import CriticLoss, SortedQuantileHuber
from interreplay.learning.value.streams import ValueLayers
from interreplay.learning.value.value_heads import HeadLoss, ValueHead

COSINES = 64
"""Number of cosines in the embedding of a fraction."""


class ImplicitLayers(ValueLayers):
    """Layers from encoded observations and fractions τ to the quantiles of the return at τ.

    Z_τ(s, a) = f(ψ(s) ⊙ φ(τ))_a, with φ(τ) = ReLU(W·(cos πiτ)_{0 ≤ i < 64} + b). ψ consists of all hidden layers
    but the last, which belongs to f. A pass while learning draws K fractions per row; without noise, the fractions are
    (k − ½)/K.

    `fractions` is the number of fractions K per pass. See `Streams` for the other arguments.
    """

    midpoints: Tensor
    waves: Tensor

    def __init__(self, inputs: int, actions: int, fractions: int, hiddens: Sequence[int], activation: str = "relu"):
        super().__init__()
        self.activation = activation
        widths = [inputs, *hiddens]
        self.shared = nn.ModuleList(map(nn.Linear, widths[:-2], widths[1:-1]))
        self.embedding = nn.Linear(COSINES, widths[-2])
        self.hidden = nn.Linear(widths[-2], widths[-1])
        self.last = nn.Linear(widths[-1], actions)
        midpoints = (torch.arange(fractions) + 0.5) / fractions
        self.register_buffer("midpoints", midpoints, persistent=False)
        self.register_buffer("waves", math.pi * torch.arange(COSINES), persistent=False)

    def outputs(self, rows: Tensor, noise: Any = None) -> Tensor:
        """Return quantiles and their fractions ``(n, A, 2·K)``.

        `noise` is the generator of the fractions; None for the midpoints.
        """
        for layer in self.shared:
            rows = self.activate(layer(rows))
        shape = (rows.shape[0], len(self.midpoints))  # len() would fix the number of rows of an exported policy
        if noise is None:
            fractions = self.midpoints.expand(shape)
        else:
            fractions = torch.rand(shape, generator=noise, device=rows.device, dtype=rows.dtype)
        embedded = torch.relu(self.embedding(torch.cos(fractions.unsqueeze(-1) * self.waves)))
        quantiles = self.last(self.activate(self.hidden(rows.unsqueeze(1) * embedded))).mT
        return torch.cat([quantiles, fractions.unsqueeze(1).expand_as(quantiles)], dim=-1)

    def draw_noise(self, rng: torch.Generator) -> Any:
        """Return the generator, from which a pass draws the fractions of its rows."""
        return rng


class Implicit(ValueHead):
    """Quantiles at drawn fractions, in the outputs of `ImplicitLayers`: K quantiles, then their K fractions.

    The loss is that of `Quantiles` with each row's fractions; it serves as the error, too.

    Args:
        fractions: Number of fractions K per pass.
        kappa: κ, above 0.
    """

    def __init__(self, fractions: int = 64, kappa: float = 1.0):
        super().__init__()
        self.fractions = fractions
        self.numbers = 2 * fractions
        self.kappa = float(kappa)

    def values(self, outputs: Tensor) -> Tensor:
        return outputs[..., : self.fractions].mean(dim=-1)

    def target(self, following: Tensor, rewards: Tensor, discounts: Tensor) -> Tensor:
        quantiles, fractions = following.chunk(2, dim=-1)
        quantiles = quantiles.sort(dim=-1).values  # a mean over views is taken by rank, as each has other fractions
        return torch.cat([rewards.unsqueeze(-1) + discounts.unsqueeze(-1) * quantiles, fractions], dim=-1)

    def compare(self, chosen: Tensor, target: Tensor, m: int = 1, loss: CriticLoss | None = None) -> HeadLoss:
        quantiles, fractions = chosen.chunk(2, dim=-1)
        losses = SortedQuantileHuber.apply(quantiles, target[:, : self.fractions], fractions.detach(), self.kappa)
        return HeadLoss(losses, losses.detach())
