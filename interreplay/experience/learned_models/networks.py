"""An ensemble of fully connected networks with equal layer widths."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

DECAYS = (2.5e-5, 5e-5, 7.5e-5, 1e-4)
"""Weight decay of the first, the second, all further hidden layers and the last layer (Janner et al. 2019)."""
MAX_LOG_VARIANCE = 0.5
MIN_LOG_VARIANCE = -10.0
"""Initial bounds of the log variances."""


class Networks:
    """m fully connected networks with SiLU between layers, computed in one batched product per layer.

    Weights are initialized as in the code of MBPO: normal with standard deviation 1/(2√fan_in), drawn again if beyond
    two standard deviations. Biases start at 0.

    Args:
        sizes: Widths from the input to the output.
        bounds: Number d of log variances with learned bounds; 0 without log variances.
        dropout: Probability with which units of all hidden layers but the first are dropped during learning.
        matrix_dtype: Type of the products between hidden layers; None for the type of the parameters.

    Attributes:
        weights: ``(m, in, out)`` of every layer.
        biases: ``(m, 1, out)`` of every layer.
        bounds: Largest and smallest log variances ``(m, 1, d)``, or an empty list.
    """

    def __init__(
        self,
        members: int,
        sizes: Sequence[int],
        rng: np.random.Generator,
        bounds: int = 0,
        dropout: float = 0.0,
        device: str | torch.device = "cpu",
        matrix_dtype: torch.dtype | None = None,
    ):
        self.sizes = tuple(sizes)
        self.dropout = dropout
        self.matrix_dtype = matrix_dtype
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        self.weights: list[Tensor] = []
        self.biases: list[Tensor] = []
        self.bounds: list[Tensor] = []
        for fan_in, fan_out in pairwise(sizes):
            drawn = torch.randn((members, fan_in, fan_out), generator=generator)
            while (beyond := drawn.abs() > 2).any():
                drawn[beyond] = torch.randn(int(beyond.sum()), generator=generator)
            self.weights.append((drawn * (0.5 / fan_in**0.5)).to(device))
            self.biases.append(torch.zeros((members, 1, fan_out), device=device))
        if bounds:
            for limit in (MAX_LOG_VARIANCE, MIN_LOG_VARIANCE):
                self.bounds.append(torch.full((members, 1, bounds), limit, device=device))

    def __len__(self) -> int:
        return len(self.weights[0])

    @property
    def tensors(self) -> list[Tensor]:
        """All parameters: weights, biases and bounds."""
        return [*self.weights, *self.biases, *self.bounds]

    def copy_members(self, members: Tensor) -> Networks:
        """Return copies of some networks, given their numbers ``(k,)``."""
        copies = copy.copy(self)
        for name in ("weights", "biases", "bounds"):
            setattr(copies, name, [values.detach().index_select(0, members) for values in getattr(self, name)])
        return copies

    def put(self, members: Tensor, others: Sequence[Tensor]) -> None:
        """Overwrite the parameters of `members` ``(k,)``; `others` are in the order of `tensors`."""
        for own, values in zip(self.tensors, others, strict=True):
            own[members] = values

    def decays(self) -> list[float]:
        """Return the weight decay of each tensor in `tensors`; 0 for biases and bounds."""
        decays = [DECAYS[min(layer, 2)] for layer in range(len(self.weights) - 1)]
        return [*decays, DECAYS[3]] + [0.0] * (len(self.biases) + len(self.bounds))

    def forward(self, rows: Tensor, dropped: Sequence[Tensor | None] | None = None) -> Tensor:
        """Return the outputs ``(m, n, out)`` for rows ``(m, n, in)``, or ``(n, in)`` for all networks.

        `dropped` contains the dropout factors of every hidden layer, see `draw_dropped`; None without dropout.
        """
        values = rows.expand(len(self), *rows.shape[-2:])
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            dtype = weight.dtype
            if self.matrix_dtype is not None and 0 < i < last:
                dtype = self.matrix_dtype
            values = torch.baddbmm(bias.to(dtype), values.to(dtype), weight.to(dtype))
            if i == last:
                break
            values = functional.silu(values, inplace=not values.requires_grad)
            factors = None if dropped is None else dropped[i]
            if factors is not None:
                values = values * factors
        return values

    def draw_dropped(self, rows: int, rng: torch.Generator) -> list[Tensor | None] | None:
        """Draw dropout factors, 0 with probability p (up to 2⁻¹⁶) or 1/(1 − p), for every hidden layer but the first.

        Each factor takes 16 random bits. This takes less than half the time of PyTorch's Bernoulli draws, which took a
        third of a deterministic model's step.

        Returns:
            Factors ``(m, n, width)`` of every hidden layer, None for the first; None without dropout.
        """
        if not self.dropout:
            return None
        factors: list[Tensor | None] = [None]
        for width in self.sizes[2:-1]:
            shape = (len(self), rows, width)
            count = math.prod(shape)
            bits = torch.empty((count + 3) // 4, dtype=torch.int64, device=self.weights[0].device)
            bits.random_(-(2**63), None, generator=rng)
            kept = bits.view(torch.int16)[:count].view(shape) >= int(self.dropout * 2**16) - 2**15
            factors.append(kept.to(self.weights[0].dtype).mul_(1.0 / (1.0 - self.dropout)))
        return factors

    def forward_member(self, member: int, rows: Tensor) -> Tensor:
        """Return the outputs ``(n, out)`` of one network for rows ``(n, in)``."""
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            rows = torch.addmm(bias[member], rows, weight[member])
            if i < last:
                functional.silu(rows, inplace=True)
        return rows

    def state_dict(self) -> dict[str, Any]:
        """Return the parameters as arrays that share their memory."""
        return {str(i): values.numpy(force=True) for i, values in enumerate(self.tensors)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the parameters of a state."""
        for i, values in enumerate(self.tensors):
            values.copy_(torch.as_tensor(np.asarray(state[str(i)])))


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
    """Return the loss of each network ``(m,)`` for rows ``(m, n, in)`` and targets ``(m, n, d)``, without weight decay.

    Networks with log-variance bounds minimize the Gaussian negative log-likelihood, the mean over rows and columns of
    (μ − y)²·e^(−v) + v, plus .01 times the sum of the largest minus the smallest log variances (Janner et al. 2019,
    arXiv:1906.08253). Other networks minimize the mean squared error.
    """
    outputs = networks.forward(rows, dropped)
    if not networks.bounds:
        return (outputs - targets).square().mean(dim=(1, 2))
    highest, lowest = networks.bounds
    means, raw = outputs.chunk(2, dim=-1)
    variances = log_variances(raw, highest, lowest)
    errors = (means - targets).square() * (-variances).exp() + variances
    return errors.mean(dim=(1, 2)) + BOUND_WEIGHT * (highest - lowest).sum(dim=(1, 2))
