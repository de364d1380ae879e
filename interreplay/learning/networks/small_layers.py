"""Small fully connected networks as one function of autograd that computes in numpy.

A call of torch takes several microseconds, a call of numpy one or two. With layers of 64 units and batches of 32, these
calls take most of the time of a pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

SMALL = 20_000
"""Number of parameters up to which a network is small: beyond it, products take longer than calls."""


class SmallNetwork:
    """Arrays that share the memory of the parameters of one network, and its passes.

    Args:
        weights: ``(1, in, out)`` of every layer.
        biases: ``(1, 1, out)`` of every layer.
        activation: Name of the function between layers, "relu" or "tanh".
    """

    def __init__(self, weights: Sequence[Tensor], biases: Sequence[Tensor], activation: str):
        self.weights = [weight.detach().numpy()[0] for weight in weights]
        self.biases = [bias.detach().numpy()[0, 0] for bias in biases]
        self._given = list(weights)
        self._addresses = [weight.data_ptr() for weight in weights]
        self._activation = activation
        self._tanh = activation == "tanh"

    def is_current(self, activation: str) -> bool:
        """Return whether the arrays still share the memory of the parameters; False after a module was moved."""
        return self._activation == activation and self._addresses == [weight.data_ptr() for weight in self._given]

    def forward(self, rows: np.ndarray) -> list[np.ndarray]:
        """Return the inputs of every layer for rows ``(n, in)``, and the outputs ``(n, out)`` at the end."""
        seen = [rows]
        for weight, bias in zip(self.weights, self.biases, strict=True):
            if len(seen) > 1:
                np.tanh(rows, out=rows) if self._tanh else np.maximum(rows, 0.0, out=rows)
            rows = rows @ weight
            rows += bias
            seen.append(rows)
        return seen

    def backward(
        self, seen: list[np.ndarray], gradient: np.ndarray, of_rows: bool
    ) -> tuple[np.ndarray | None, list[np.ndarray]]:
        """Propagate the gradient of the outputs.

        Args:
            seen: Result of `forward`.
            gradient: Gradient of the outputs ``(n, out)``.
            of_rows: Whether the gradient of the rows is required.

        Returns:
            The gradient of the rows ``(n, in)`` or None, and the gradients of weights ``(1, in, out)``, then of biases
            ``(1, 1, out)``.
        """
        of_weights = []
        of_biases = []
        for i in reversed(range(len(self.weights))):
            of_weights.append((seen[i].T @ gradient)[None])
            of_biases.append(np.add.reduce(gradient, axis=0)[None, None])
            if i == 0:
                break
            gradient = gradient @ self.weights[i].T
            if self._tanh:
                gradient *= 1.0 - np.square(seen[i])
            else:
                gradient[seen[i] <= 0.0] = 0.0
        found = gradient @ self.weights[0].T if of_rows else None
        return found, [*reversed(of_weights), *reversed(of_biases)]


class SmallLayers(torch.autograd.Function):
    """A pass of a `SmallNetwork` as one function of autograd."""

    @staticmethod
    def forward(ctx: Any, network: SmallNetwork, rows: Tensor, *parameters: Tensor) -> Tensor:
        """Return outputs ``(n, out)`` of rows ``(n, in)``; the parameters are weights, then biases."""
        ctx.save_for_backward(*parameters)  # autograd then detects changes before the backward pass
        ctx.network = network
        ctx.seen = network.forward(rows.detach().numpy())
        return torch.from_numpy(ctx.seen[-1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of the rows and of all parameters."""
        assert ctx.saved_tensors
        of_rows, found = ctx.network.backward(ctx.seen, gradient.numpy(), ctx.needs_input_grad[1])
        rows = None if of_rows is None else torch.from_numpy(of_rows)
        return None, rows, *[torch.from_numpy(values) for values in found]


def is_small(parameters: Sequence[Tensor]) -> bool:
    """Return whether a network is on the processor and has at most `SMALL` parameters."""
    on_processor = all(parameter.device.type == "cpu" for parameter in parameters)
    return on_processor and sum(parameter.numel() for parameter in parameters) <= SMALL
