"""Forward and backward passes by hand for the stacked networks of a module."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from interreplay.learning.dropout import Dropped
from interreplay.learning.fast.batched_layers import BatchedLayers, ForwardPass, LayerViews, Networks


class StackedLayers(Protocol):
    """m fully connected networks of one shape; `interreplay.learning.networks.BatchedMLP` is it.

    Attributes:
        weights: ``(m, in, out)`` of every layer.
        biases: ``(m, 1, out)`` of every layer.
        scales: γ ``(m, 1, out)`` of every hidden layer, none without layer normalization.
        shifts: β of the same shapes.
        dropout: Probability with which hidden units are left out.
        matrix_dtype: Of the products between hidden layers, None for that of the parameters.
        activation: Name of the function between layers.
    """

    weights: nn.ParameterList
    biases: nn.ParameterList
    scales: nn.ParameterList
    shifts: nn.ParameterList
    dropout: float
    matrix_dtype: torch.dtype | None
    activation: str


class Passes:
    """Passes of stacked networks without autograd, on views of their parameters that are made once.

    Args:
        layers: The networks; their parameters may be moved, loaded and copied with them.
    """

    def __init__(self, layers: StackedLayers):
        self.layers = layers
        self._weights, self._biases = tuple(layers.weights), tuple(layers.biases)
        self._scales, self._shifts = tuple(layers.scales), tuple(layers.shifts)
        self._renew()

    def _renew(self) -> None:
        self._views = LayerViews(self._weights, self._biases, self._scales, self._shifts)
        self._gradients: LayerViews | None = None

    def run(self, rows: Tensor, dropped: Dropped | None = None, networks: Networks | None = None) -> ForwardPass:
        """Run a forward pass for `learn` or its own `backward`.

        Args:
            rows: What all networks see, ``(n, in)``.
            dropped: Hidden units that are left out, of each of the networks that run; None for none.
            networks: Those that run; all for None.
        """
        if not self._views.are_of(self._weights):
            self._renew()
        views = self._views if networks is None else self._views.some(networks)
        layers = self.layers
        return ForwardPass(rows, views, layers.matrix_dtype, layers.activation, dropped, 1.0 - layers.dropout)

    def learn(self, forward: ForwardPass, gradients: Tensor) -> None:
        """Set the gradient of every parameter, in tensors that are used again the next time.

        Args:
            forward: A pass of all networks. Rows that require a gradient get theirs by autograd.
            gradients: Of the loss by the outputs, ``(m, n, out)``.
        """
        if self._gradients is None:
            self._gradients = self._views.empty_like()
        of_rows = forward.backward(gradients, self._gradients, slice(None) if forward.rows.requires_grad else None)
        parts = (self._weights, self._biases, self._scales, self._shifts)
        for parameters, gradients_of in zip(parts, self._gradients.parts, strict=True):
            for parameter, gradient in zip(parameters, gradients_of, strict=True):
                parameter.grad = gradient
        if of_rows is not None:
            forward.rows.backward(of_rows)

    def differentiable(self, rows: Tensor) -> Tensor:
        """Return outputs ``(m, n, out)`` of rows ``(n, in)`` whose gradients autograd takes by our backward pass.

        Raises:
            ValueError: The layers are normalized.
        """
        if self._scales:
            raise ValueError("layers are normalized; expected layers without normalization, or `BatchedMLP.outputs`")
        return BatchedLayers.apply(
            rows, self.layers.matrix_dtype, self.layers.activation, *self._weights, *self._biases
        )
