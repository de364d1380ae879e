"""Residual networks with layer normalization (SimBa, Lee et al. 2024, arXiv:2410.09754), several at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from interreplay.learning.networks.batched_layers import (
    ForwardPass,
    LayerViews,
    Member,
    Networks,
    PassSettings,
    affine,
    bias_gradient,
    input_gradient,
    weight_gradient,
)
from interreplay.learning.networks.between_layers import BetweenLayers, Dropped
from interreplay.learning.networks.layers import BatchedMLP

EXPANSION = 4
"""Width of a block's hidden layer relative to the width of the network."""


class ResidualPass(ForwardPass):
    """One forward pass of m residual networks, kept for the backward pass.

    x₀ = W₀·row + b₀; per block x ← x + W₂·f(W₁·LN(x) + b₁) + b₂; outputs w·LN(x) + b. The layers in `views` are W₀,
    then W₁ and W₂ of each block, then w; the normalizations are those of the blocks, then the last one.
    """

    def __init__(self, rows: Tensor, views: LayerViews, settings: PassSettings):
        super().__init__(rows, views, settings)
        self.blocks = len(self.views.parts[2]) - 1

    def make_between(self, dropped: Dropped | None, keep: float) -> list[list[BetweenLayers]]:
        found = []
        for member in self.views.members:
            found.append([BetweenLayers(norm, None, 1.0) for norm in member.norms])
        return found

    def run(self, number: int, member: Member, rows: Tensor, inputs: list[Tensor] | None) -> Tensor:
        weights = member.weights
        biases = member.biases
        norms = self._between[number]
        values = affine(rows, weights[0], biases[0])
        read = [rows]
        for block in range(self.blocks):
            first = 1 + 2 * block
            normalized = norms[block].forward(values)
            hidden = affine(normalized, weights[first], biases[first], self._dtypes[first])
            hidden = self._activation.forward(hidden)
            branch = affine(hidden, weights[first + 1], biases[first + 1], self._dtypes[first + 1])
            values = branch.add_(values)
            read += [normalized, hidden]
        normalized = norms[-1].forward(values)
        if inputs is not None:
            inputs += [*read, normalized]
        return affine(normalized, weights[-1], biases[-1])

    def to_first_layer(
        self,
        gradient: Tensor,
        weights: Sequence[Tensor],
        inputs: Sequence[Tensor],
        between: Sequence[BetweenLayers],
        into: Member | None,
    ) -> Tensor:
        last = len(weights) - 1
        self._add_gradients(last, gradient, inputs, into)
        gradient = input_gradient(gradient, weights[last])
        gradient = between[-1].backward(gradient, into.norms[-1] if into is not None else None)
        for block in reversed(range(self.blocks)):
            first = 1 + 2 * block
            self._add_gradients(first + 1, gradient, inputs, into)
            branch = input_gradient(gradient, weights[first + 1], self._dtypes[first + 1])
            branch = self._activation.backward(branch, inputs[first + 1])
            self._add_gradients(first, branch, inputs, into)
            branch = input_gradient(branch, weights[first], self._dtypes[first])
            branch = between[block].backward(branch, into.norms[block] if into is not None else None)
            gradient = branch.add_(gradient)
        self._add_gradients(0, gradient, inputs, into)
        return gradient

    def _add_gradients(self, layer: int, gradient: Tensor, inputs: Sequence[Tensor], into: Member | None) -> None:
        """Compute the gradients of a layer's weight and bias, given the gradient of its outputs."""
        if into is None:
            return
        weight_gradient(inputs[layer], gradient, self._dtypes[layer], out=into.weights[layer])
        bias_gradient(gradient, out=into.biases[layer])


class ResidualMLP(BatchedMLP):
    """m residual networks of one shape: the trunk and the last layer of SimBa.

    The first and the last layer are initialized orthogonally with gain 1, the layers of blocks as in He et al. 2015
    (arXiv:1502.01852), and biases with 0.

    Args:
        count: Number of networks m.
        inputs: Width of the inputs.
        width: Width d of the network.
        blocks: Number of residual blocks, each with a hidden layer of width 4d.
        outputs: Width of the outputs.
    """

    pass_class = ResidualPass

    def __init__(self, count: int, inputs: int, width: int, blocks: int, outputs: int):
        nn.Module.__init__(self)
        sizes = [(inputs, width)]
        for _ in range(blocks):
            sizes += [(width, EXPANSION * width), (EXPANSION * width, width)]
        sizes.append((width, outputs))
        self._set_parameters(count, sizes, [width] * (blocks + 1))

    @torch.no_grad()
    def reset(self, rng: torch.Generator | None = None) -> None:
        last = len(self.weights) - 1
        for layer, weight in enumerate(self.weights):
            if layer in (0, last):
                for network in weight:
                    nn.init.orthogonal_(network, generator=rng)
            else:
                weight.normal_(0.0, math.sqrt(2.0 / weight.shape[1]), generator=rng)
        for values in (*self.biases, *self.shifts):
            values.zero_()
        for scale in self.scales:
            scale.fill_(1.0)

    def forward(self, rows: Tensor) -> Tensor:
        """Map ``(n, inputs)`` to the first network's outputs ``(n, outputs)``."""
        return self.outputs(rows)[0]


class ResidualGaussian(ResidualMLP):
    """Residual networks of [mean; log standard deviation], the latter bounded smoothly by −10 and 2 as in SimBa.

    log σ = −10 + 6·(1 + tanh(·)). See `ResidualMLP` for the arguments.
    """

    LOWEST = -10.0
    HALF_RANGE = 6.0

    def outputs(
        self,
        rows: Tensor | Sequence[Tensor],
        dropped: Dropped | None = None,
        networks: Networks | None = None,
        frozen: bool = False,
    ) -> Tensor:
        mean, raw = super().outputs(rows, dropped, networks, frozen).chunk(2, dim=-1)
        log_std = torch.tanh(raw) * self.HALF_RANGE + (self.LOWEST + self.HALF_RANGE)
        return torch.cat([mean, log_std], dim=-1)
