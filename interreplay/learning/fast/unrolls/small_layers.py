"""Small fully connected networks that set their parameters' gradients in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from interreplay.learning.fast.values.numpy_passes import SmallNetwork


class SmallBody(SmallNetwork):
    """A `SmallNetwork` with gradients of its own."""

    def __init__(self, body: Any):
        super().__init__(body)
        self._gradients: list[Tensor] = []

    def learn(self, seen: list[np.ndarray], gradient: np.ndarray) -> None:
        """Set the gradient of every parameter, in tensors that are used again, by that of the outputs ``(n, out)``."""
        if not self._gradients:
            self._gradients = [torch.empty_like(parameter) for parameter in self._parameters]
        self.backward(seen, gradient, self._gradients)
        for parameter, value in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = value
