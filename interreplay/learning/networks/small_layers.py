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
        self.weights = []
        self.biases = []
        for weight, bias in zip(weights, biases, strict=True):
            self.weights.append(weight.detach().numpy()[0])
            self.biases.append(bias.detach().numpy()[0, 0])
        self._given = list(weights)
        self._addresses = list(map(Tensor.data_ptr, weights))
        self._activation = activation
        self._tanh = activation == "tanh"

    def is_current(self, activation: str) -> bool:
        """Return whether the arrays still share the memory of the parameters; False after a module was moved."""
        return self._activation == activation and self._addresses == list(map(Tensor.data_ptr, self._given))

    def forward(self, rows: np.ndarray) -> list[np.ndarray]:
        """Return the inputs of every layer for rows ``(n, in)``, and the outputs ``(n, out)`` at the end."""
        seen = [rows]
        for weight, bias in zip(self.weights, self.biases, strict=True):
            if len(seen) > 1:
                if self._tanh:
                    np.tanh(rows, out=rows)
                else:
                    np.maximum(rows, 0.0, out=rows)
            rows = rows @ weight
            rows += bias
            seen.append(rows)
        return seen

    def backward(
        self, seen: list[np.ndarray], gradient: np.ndarray, of_rows: bool
    ) -> tuple[np.ndarray | None, list[np.ndarray]]:
        """Propagate the gradient of the outputs.

        Return the gradient of the rows ``(n, in)``, or None unless `of_rows`, and the gradients of weights ``(1, in,
        out)``, then of biases ``(1, 1, out)``. `seen` is the result of `forward`.
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
        gradients = [*reversed(of_weights), *reversed(of_biases)]
        if not of_rows:
            return None, gradients
        return gradient @ self.weights[0].T, gradients


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
        assert ctx.saved_tensors
        of_rows, found = ctx.network.backward(ctx.seen, gradient.numpy(), ctx.needs_input_grad[1])
        gradients = map(torch.from_numpy, found)
        if of_rows is None:
            return None, None, *gradients
        return None, torch.from_numpy(of_rows), *gradients


def is_small(parameters: Sequence[Tensor]) -> bool:
    """Return whether a network is on the processor and has at most `SMALL` parameters."""
    on_processor = all(parameter.device.type == "cpu" for parameter in parameters)
    return on_processor and sum(parameter.numel() for parameter in parameters) <= SMALL
