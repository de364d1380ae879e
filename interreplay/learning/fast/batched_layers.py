"""Several fully connected networks of one shape: their forward pass, and a backward pass written out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class LayerViews:
    """Views of the stacked parameters of m fully connected networks, grouped as they are multiplied.

    A GPU takes all networks in one product per layer. A processor takes one network after the other, whose
    activations then stay in its cache.

    Args:
        weights: ``(m, in, out)`` of every layer.
        biases: ``(m, 1, out)`` of every layer.

    Attributes:
        members: Weights and biases of every layer, ``(in, out)`` and ``(1, out)`` of one network after the other, or
            the given ones of all at once.
    """

    def __init__(self, weights: Sequence[Tensor], biases: Sequence[Tensor]):
        self.weights, self.biases = [w.detach() for w in weights], [b.detach() for b in biases]
        self.count, self.depth = len(weights[0]), len(weights)
        self.at_once = at_once(weights[0].device)
        apart = zip(zip(*map(self.split, self.weights)), zip(*map(self.split, self.biases)), strict=True)  # noqa: B905
        self.members: list[tuple[Sequence[Tensor], Sequence[Tensor]]] = list(apart)

    def split(self, values: Tensor) -> Sequence[Tensor]:
        """Return values ``(m, ...)`` of each member."""
        return (values,) if self.at_once else values.unbind(0)

    def are_of(self, weights: Sequence[Tensor]) -> bool:
        """Return whether these are views of `weights`: not so when a module was moved or copied."""
        return all(a.data_ptr() == b.data_ptr() for a, b in zip(self.weights, weights, strict=True))

    def first(self, count: int) -> LayerViews:
        """Return views of the first `count` networks."""
        return LayerViews([w[:count] for w in self.weights], [b[:count] for b in self.biases])

    def empty_like(self) -> LayerViews:
        """Return as many numbers of any value, for gradients."""
        return LayerViews([torch.empty_like(w) for w in self.weights], [torch.empty_like(b) for b in self.biases])


ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    "relu": (Tensor.relu_, lambda gradient, outputs: torch.ops.aten.threshold_backward(gradient, outputs, 0)),
    "tanh": (Tensor.tanh_, torch.ops.aten.tanh_backward),
}
"""Functions between layers by name: in place, and the gradient of their inputs from that of their outputs and these."""


class ForwardPass:
    """One forward pass of m networks with ReLU or tanh between layers, kept for the backward pass.

    The backward pass of a processor leaves out rows that get no gradient, as do those of the critic that is not the
    minimum. Autograd's own backward of `torch.baddbmm` would hand out transposed gradients, which ReLU's backward
    walks through against the grain, and multiply matrices with one column as if they had many.
    `docs/performance.md` has the figures.

    Args:
        rows: What all networks see, ``(n, in)``.
        views: Of the parameters of m networks.
        dtype: In which the matrices between hidden layers are multiplied, and their gradients; the first and the
            last layer, sums and activations keep the type of the rows. None for that type everywhere.
        activation: Name of the function between layers, one of `ACTIVATIONS`.

    Attributes:
        outputs: ``(m, n, out)``.
    """

    def __init__(self, rows: Tensor, views: LayerViews, dtype: torch.dtype | None = None, activation: str = "relu"):
        self.rows, self.views = rows, views
        activate, self._through_activation = ACTIVATIONS[activation]
        rows = rows.detach()
        inner = views.depth - 2
        self.dtypes = [None, *[dtype] * inner, None] if inner > 0 else [None] * views.depth
        self.inputs: list[list[Tensor]] = []
        outputs = []
        for weights, biases in views.members:
            inputs = [rows.expand(views.count, *rows.shape) if views.at_once else rows]
            for i in range(views.depth - 1):
                inputs.append(activate(affine(inputs[i], weights[i], biases[i], self.dtypes[i])))
            outputs.append(affine(inputs[-1], weights[-1], biases[-1], None))
            self.inputs.append(inputs)
        self.outputs = outputs[0].view(views.count, len(rows), -1) if len(outputs) == 1 else torch.stack(outputs)

    def backward(
        self, gradients: Tensor, into: LayerViews | None = None, columns: slice | None = None
    ) -> Tensor | None:
        """Propagate gradients ``(m, n, out)`` of a loss by the outputs.

        Args:
            gradients: Of the outputs.
            into: Where the gradients of the parameters are put; None where they are not wanted.
            columns: Those of the rows of which gradients are wanted, k of them; None for none.

        Returns:
            Gradients of these columns ``(n, k)``, or None.
        """
        of_rows = None if columns is None else torch.zeros_like(self.rows.detach()[:, columns])
        for number, gradient in enumerate(self.views.split(gradients)):
            weights, inputs = self.views.members[number][0], self.inputs[number]
            which = None
            if into is None and gradient.shape[-1] == 1 and not self.views.at_once:
                which = gradient[:, 0].nonzero().squeeze(1)
                gradient, inputs = gradient[which], [values[which] for values in inputs]
            for i in reversed(range(len(weights))):
                if into is not None:
                    of_weights, of_biases = into.members[number]
                    weight_gradient(inputs[i], gradient, self.dtypes[i], out=of_weights[i])
                    torch.sum(gradient, dim=-2, keepdim=True, out=of_biases[i])
                if i:
                    back = through(gradient, weights[i], self.dtypes[i])
                    gradient = self._through_activation(back, inputs[i])
            if of_rows is not None:
                add_rows(of_rows, which, through(gradient, weights[0][..., columns, :], None))
        return of_rows


class BatchedLayers(torch.autograd.Function):
    """A `ForwardPass` as a function of autograd, for losses that are not differentiated by hand."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, dtype: torch.dtype | None, activation: str, *parameters: Tensor) -> Tensor:
        """Return outputs ``(m, n, out)`` for rows ``(n, in)``, the weights and then the biases of every layer."""
        middle = len(parameters) // 2
        ctx.save_for_backward(*parameters)  # so that autograd notices when they are changed before the backward pass
        ctx.done = ForwardPass(rows, LayerViews(parameters[:middle], parameters[middle:]), dtype, activation)
        return ctx.done.outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return gradients of the rows and of all parameters, those that are needed."""
        into = ctx.done.views.empty_like() if ctx.needs_input_grad[3] else None
        of_rows = ctx.done.backward(gradients, into, slice(None) if ctx.needs_input_grad[0] else None)
        of_parameters = [None] * len(ctx.saved_tensors) if into is None else [*into.weights, *into.biases]
        return of_rows, None, None, *of_parameters


def at_once(device: torch.device) -> bool:
    """Return whether all networks are computed in one product per layer."""
    return device.type != "cpu"


def product(a: Tensor, b: Tensor, dtype: torch.dtype | None, out: Tensor | None = None) -> Tensor:
    """Return a·b ``(..., n, out)``, computed in `dtype` where one is given, in the type of `a`."""
    multiply = torch.mm if a.ndim == 2 else torch.matmul
    if dtype is None:
        return multiply(a, b, out=out)
    found = multiply(a.to(dtype), b.to(dtype))
    return found.to(a.dtype) if out is None else out.copy_(found)


def affine(inputs: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Return ``(..., n, out)`` for inputs ``(..., n, in)``, weights ``(..., in, out)`` and biases ``(..., 1, out)``."""
    if weight.shape[-1] == 1:
        if weight.ndim == 2:
            return torch.addmv(bias[0], inputs, weight[:, 0]).unsqueeze(1)
        return torch.sum(inputs * weight.mT, dim=-1, keepdim=True).add_(bias)
    if dtype is not None:
        return product(inputs, weight, dtype).add_(bias)
    return torch.addmm(bias, inputs, weight) if inputs.ndim == 2 else torch.baddbmm(bias, inputs, weight)


def weight_gradient(inputs: Tensor, gradient: Tensor, dtype: torch.dtype | None, out: Tensor) -> None:
    """Fill ``(..., in, out)`` for inputs ``(..., n, in)`` and gradients ``(..., n, out)`` of a layer's outputs."""
    if gradient.shape[-1] > 1:
        product(inputs.mT, gradient, dtype, out=out)
    elif gradient.ndim == 2:
        torch.mv(inputs.t(), gradient[:, 0], out=out[:, 0])
    else:
        torch.sum(inputs * gradient, dim=-2, out=out.squeeze(-1))


def through(gradient: Tensor, weight: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Return gradients ``(..., n, in)`` of a layer's inputs for those of its outputs ``(..., n, out)``."""
    if gradient.shape[-1] == 1:
        return gradient * weight.mT
    if weight.shape[-2] < weight.shape[-1]:
        # The few inputs as rows of the product are faster than as its columns.
        return product(weight, gradient.mT, dtype).mT
    return product(gradient, weight.mT, dtype)


def add_rows(total: Tensor, rows: Tensor | None, values: Tensor) -> None:
    """Add values ``(k, d)`` to the rows ``(k,)`` of the total ``(n, d)``, or values ``(m, n, d)`` of m networks."""
    if rows is None:
        total.add_(values if values.ndim == 2 else values.sum(dim=0))
    else:
        total.index_add_(0, rows, values)
