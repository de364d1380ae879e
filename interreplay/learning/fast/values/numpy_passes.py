"""Passes of small networks in numpy: a call of torch takes several microseconds, one of numpy one or two."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import Tensor

SMALL = 20_000
"""Parameters up to which a network is small: beyond, products take more than what they are called by."""


def are_small(bodies: Iterable[Any]) -> bool:
    """Return whether `SmallNetwork` can run these `MLP`s, which go together.

    They are on the processor, have matrices of one type, ReLU or tanh, and together at most `SMALL` parameters.
    """
    bodies = list(bodies)
    parameters = [parameter for body in bodies for parameter in body.parameters()]
    on_processor = all(parameter.device.type == "cpu" for parameter in parameters)
    plain = all(body.matrix_dtype is None and body.activation in ("relu", "tanh") for body in bodies)
    return on_processor and plain and sum(parameter.numel() for parameter in parameters) <= SMALL


class SmallNetwork:
    """Passes of one `MLP` on arrays that share the memory of its parameters.

    Args:
        body: The network, with ReLU or tanh.
    """

    def __init__(self, body: Any):
        self._parameters = [*body.weights, *body.biases]
        self._tanh = body.activation == "tanh"
        self._look()

    def _look(self) -> None:
        arrays = [parameter.detach().numpy() for parameter in self._parameters]
        depth = len(arrays) // 2
        self.weights, self.biases = [w[0] for w in arrays[:depth]], [b[0, 0] for b in arrays[depth:]]
        self._addresses = [parameter.data_ptr() for parameter in self._parameters]

    def forward(self, rows: np.ndarray) -> list[np.ndarray]:
        """Return what each layer sees of rows ``(n, in)``, and at last the outputs ``(n, out)``."""
        if [parameter.data_ptr() for parameter in self._parameters] != self._addresses:
            self._look()
        seen = [rows]
        for weight, bias in zip(self.weights, self.biases, strict=True):
            if len(seen) > 1:
                np.tanh(rows, out=rows) if self._tanh else np.maximum(rows, 0.0, out=rows)
            rows = rows @ weight
            rows += bias
            seen.append(rows)
        return seen

    def backward(self, seen: list[np.ndarray], gradient: np.ndarray, into: list[Tensor]) -> None:
        """Fill the gradients `into` of weights, then biases, from that of the outputs ``(n, out)``."""
        depth = len(self.weights)
        for i in reversed(range(depth)):
            np.matmul(seen[i].T, gradient, out=into[i].numpy()[0])
            np.add.reduce(gradient, axis=0, out=into[depth + i].numpy()[0, 0])
            if i:
                gradient = gradient @ self.weights[i].T
                if self._tanh:
                    gradient *= 1.0 - np.square(seen[i])
                else:
                    gradient[seen[i] <= 0.0] = 0.0
