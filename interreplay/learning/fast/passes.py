"""Forward and backward passes by hand for the stacked networks of a module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from interreplay.learning.fast.batched_layers import BatchedLayers, ForwardPass, LayerViews

if TYPE_CHECKING:
    from interreplay.learning.networks import BatchedMLP


class Passes:
    """Passes of a `BatchedMLP` without autograd, on views of its parameters that are made once.

    Args:
        layers: The module; its ``weights`` and ``biases`` may be moved, loaded and copied with it.
    """

    def __init__(self, layers: BatchedMLP):
        self.layers = layers
        self._weights, self._biases = tuple(layers.weights), tuple(layers.biases)
        self._renew()

    def _renew(self) -> None:
        self._views = LayerViews(self._weights, self._biases)
        self._firsts: dict[int, LayerViews] = {}
        self._gradients: LayerViews | None = None

    def run(self, rows: Tensor, first: int | None = None) -> ForwardPass:
        """Run a forward pass for `learn` or its own `backward`.

        Args:
            rows: What all networks see, ``(n, in)``.
            first: Run the first so many networks alone; all for None.
        """
        if not self._views.are_of(self._weights):
            self._renew()
        views = self._views
        if first is not None:
            if first not in self._firsts:
                self._firsts[first] = views.first(first)
            views = self._firsts[first]
        return ForwardPass(rows, views, self.layers.matrix_dtype, self.layers.activation)

    def learn(self, forward: ForwardPass, gradients: Tensor) -> None:
        """Set the gradient of every parameter, in tensors that are used again the next time.

        Args:
            forward: A pass of all networks. Rows that require a gradient get theirs by autograd.
            gradients: Of the loss by the outputs, ``(m, n, out)``.
        """
        if self._gradients is None:
            self._gradients = self._views.empty_like()
        of_rows = forward.backward(gradients, self._gradients, slice(None) if forward.rows.requires_grad else None)
        found = (*self._gradients.weights, *self._gradients.biases)
        for parameter, gradient in zip((*self._weights, *self._biases), found, strict=True):
            parameter.grad = gradient
        if of_rows is not None:
            forward.rows.backward(of_rows)

    def differentiable(self, rows: Tensor) -> Tensor:
        """Return outputs ``(m, n, out)`` of rows ``(n, in)`` whose gradients autograd takes by our backward pass."""
        return BatchedLayers.apply(
            rows, self.layers.matrix_dtype, self.layers.activation, *self._weights, *self._biases
        )
