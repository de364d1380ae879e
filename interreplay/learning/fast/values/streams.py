"""Streams of value networks with gradients by hand; noise goes into the weights once a pass.

A noisy layer as it is defined takes two products forward and two backward. With the weights µ + σ⊙ε of a pass it is one
each way, as of a plain layer, and that of σ is that of µ times ε.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from interreplay.learning.dqn import DQNUpdate
from interreplay.learning.noisy_layers import Factors
from interreplay.learning.streams import ForwardRun, Noise, Streams


class NoisyPass:
    """One pass of a linear layer, with or without noise.

    Args:
        layer: `NoisyLinear`, or `torch.nn.Linear` without noise.
        noise: Of this pass.
    """

    def __init__(self, layer: Any, noise: Factors | None):
        self._layer, self._noise = layer, noise
        self.weight, self.bias = layer.weight, layer.bias
        if noise is not None:
            self._products = noise[1].unsqueeze(1) * noise[0]
            self.weight = torch.addcmul(layer.weight, layer.weight_sigma, self._products)
            self.bias = torch.addcmul(layer.bias, layer.bias_sigma, noise[1])

    def forward(self, rows: Tensor) -> Tensor:
        """Return ``(n, out)`` of ``(n, in)``."""
        self._rows = rows
        return torch.addmm(self.bias, rows, self.weight.t())

    def backward(self, gradient: Tensor, on: bool) -> Tensor | None:
        """Set the parameters' gradients for that of the outputs, and return that of the rows where `on` asks for it."""
        layer = self._layer
        layer.weight.grad, layer.bias.grad = gradient.t() @ self._rows, gradient.sum(0)
        if self._noise is not None:
            layer.weight_sigma.grad = layer.weight.grad * self._products
            layer.bias_sigma.grad = layer.bias.grad * self._noise[1]
        return gradient @ self.weight if on else None


class Passed(NamedTuple):
    """A hidden layer's pass, and what it gave."""

    layer: NoisyPass
    outputs: Tensor


class FastStreams:
    """The passes of `Streams`, without autograd.

    Args:
        layers: The network, with ReLU or tanh.
    """

    def __init__(self, layers: Streams):
        self.streams = layers
        self._activate = getattr(torch, layers.activation)
        self.draw_noise = layers.draw_noise

    def outputs(self, rows: Tensor, noise: Noise | None = None) -> Tensor:
        """Return outputs ``(n, A, N)``."""
        return self._forward(rows, noise)[2]

    def run(self, rows: Tensor, noise: Noise | None = None) -> ForwardRun:
        """Run a pass to learn from."""
        shared, streams, outputs = self._forward(rows.detach(), noise)

        def learn(gradients: Tensor) -> None:
            pieces = [gradients]
            if len(streams) == 2:
                pieces = [gradients.sum(1), gradients - gradients.mean(1, keepdim=True)]
            on = bool(shared) or rows.requires_grad
            found = [self._learn(*stream, piece.flatten(1), on) for stream, piece in zip(streams, pieces, strict=True)]
            if on:
                self._learn_shared(shared, sum(found), rows)  # type: ignore[arg-type]

        return ForwardRun(outputs, learn)

    def _forward(
        self, rows: Tensor, noise: Noise | None
    ) -> tuple[list[Passed], list[tuple[Passed, NoisyPass]], Tensor]:
        layers, shared = self.streams, list[Passed]()
        with torch.no_grad():
            for layer in layers.shared:
                shared.append(self._hidden(layer, None, rows))
                rows = shared[-1].outputs
            streams, found = [], []
            for i, (hidden, last) in enumerate(zip(layers.hidden, layers.last, strict=True)):
                first, second = (None, None) if noise is None else noise[2 * i : 2 * i + 2]
                passed, end = self._hidden(hidden, first, rows), NoisyPass(last, second)
                found.append(end.forward(passed.outputs).unflatten(-1, (-1, layers.numbers)))
                streams.append((passed, end))
            outputs = found[0] if len(found) == 1 else found[1].sub_(found[1].mean(1, keepdim=True)).add_(found[0])
        return shared, streams, outputs

    def _hidden(self, layer: Any, noise: Factors | None, rows: Tensor) -> Passed:
        passed = NoisyPass(layer, noise)
        return Passed(passed, self._activate(passed.forward(rows)))

    def _slopes(self, gradient: Tensor, outputs: Tensor) -> Tensor:
        if self.streams.activation == "relu":
            return torch.ops.aten.threshold_backward(gradient, outputs, 0.0)
        return torch.ops.aten.tanh_backward(gradient, outputs)

    def _learn(self, hidden: Passed, last: NoisyPass, gradient: Tensor, on: bool) -> Tensor | None:
        inner = last.backward(gradient, True)
        assert inner is not None
        return hidden.layer.backward(self._slopes(inner, hidden.outputs), on)

    def _learn_shared(self, shared: list[Passed], gradient: Tensor, rows: Tensor) -> None:
        for i, passed in reversed(list(enumerate(shared))):
            found = passed.layer.backward(self._slopes(gradient, passed.outputs), i > 0 or rows.requires_grad)
            gradient = gradient if found is None else found
        if rows.requires_grad:
            rows.backward(gradient)


class FastStreamsUpdate(DQNUpdate):
    """The update that `DQNUpdate` defines, for `Streams`; arguments are the same."""

    def __init__(self, networks: Any, **options: Any):
        super().__init__(networks, **options)
        self.layers, self.target_layers = FastStreams(self.layers), FastStreams(self.target_layers)
