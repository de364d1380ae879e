"""Several fully connected networks of one shape: their forward pass, and a backward pass written out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

MATRIX_DTYPES = {"float32": None, "bfloat16": torch.bfloat16}
"""Types in which matrices between hidden layers may be multiplied, by name; None leaves them as they are."""
Group = int | slice
Gradients = tuple[Tensor | None, list[Tensor], list[Tensor]]


class Pass:
    """One forward pass of m networks with ReLU between layers, kept for the backward pass.

    A GPU takes all networks in one product per layer. A processor takes one network after the other, whose
    activations then stay in its cache, and leaves out rows that get no gradient, as do those of the critic that is
    not the minimum. Autograd's own backward of `torch.baddbmm` would hand out transposed gradients, which ReLU's
    backward walks through against the grain, and multiply matrices with one column as if they had many.
    `docs/performance.md` has the figures.

    Args:
        rows: What all networks see, ``(n, in)``.
        weights: ``(m, in, out)`` of every layer.
        biases: ``(m, 1, out)`` of every layer.
        dtype: In which the matrices between hidden layers are multiplied, and their gradients; the first and the
            last layer, sums and ReLU keep the type of the rows. None for that type everywhere.

    Attributes:
        outputs: ``(m, n, out)``.
    """

    @torch.no_grad()
    def __init__(
        self,
        rows: Tensor,
        weights: Sequence[Tensor],
        biases: Sequence[Tensor],
        dtype: torch.dtype | None = None,
    ):
        self.rows, self.weights = rows, weights
        inner = len(weights) - 2
        self.dtypes = [None, *[dtype] * inner, None] if inner > 0 else [None] * len(weights)
        self.groups = groups(len(weights[0]), rows.device)
        self.inputs: list[list[Tensor]] = []
        self.outputs = rows.new_empty(len(weights[0]), len(rows), weights[-1].shape[-1])
        for group in self.groups:
            inputs = [rows if isinstance(group, int) else rows.expand(len(self.outputs), *rows.shape)]
            for weight, bias, kind in zip(weights[:-1], biases[:-1], self.dtypes[:-1], strict=True):
                inputs.append(affine(inputs[-1], weight[group], bias[group], kind).relu_())
            affine(inputs[-1], weights[-1][group], biases[-1][group], None, out=self.outputs[group])
            self.inputs.append(inputs)

    @torch.no_grad()
    def backward(self, gradients: Tensor, parameters: bool = True, rows: bool = False) -> Gradients:
        """What a loss with gradients ``(m, n, out)`` of the outputs gives.

        Args:
            gradients: Of the outputs.
            parameters: Whether gradients of the parameters are wanted.
            rows: Whether gradients of the rows are wanted.

        Returns:
            Gradients of the rows ``(n, in)`` or None, of the weights and of the biases, empty where not wanted.
        """
        of_weights = [torch.empty_like(w) for w in self.weights] if parameters else []
        of_biases = [w.new_empty(len(w), 1, w.shape[-1]) for w in of_weights]
        of_rows = torch.zeros_like(self.rows) if rows else None
        for group, inputs in zip(self.groups, self.inputs, strict=True):
            gradient, which = gradients[group], None
            if isinstance(group, int) and gradient.shape[-1] == 1 and not parameters:
                which = gradient[:, 0].nonzero().squeeze(1)
                gradient, inputs = gradient[which], [values[which] for values in inputs]
            for i in reversed(range(len(self.weights))):
                if parameters:
                    weight_gradient(inputs[i], gradient, self.dtypes[i], out=of_weights[i][group])
                    torch.sum(gradient, dim=-2, keepdim=True, out=of_biases[i][group])
                if i:
                    back = through(gradient, self.weights[i][group], self.dtypes[i])
                    gradient = torch.ops.aten.threshold_backward(back, inputs[i], 0)
            if of_rows is not None:
                add_rows(of_rows, which, through(gradient, self.weights[0][group], None))
        return of_rows, of_weights, of_biases


class BatchedLayers(torch.autograd.Function):
    """A `Pass` as a function of autograd, for losses that are not differentiated by hand."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, dtype: torch.dtype | None, *parameters: Tensor) -> Tensor:
        """Outputs ``(m, n, out)`` for rows ``(n, in)``, the weights and then the biases of every layer."""
        middle = len(parameters) // 2
        ctx.save_for_backward(*parameters)  # so that autograd notices when they are changed before the backward pass
        ctx.made = Pass(rows, parameters[:middle], parameters[middle:], dtype)
        return ctx.made.outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the rows and of all parameters, those that are needed."""
        learns = ctx.needs_input_grad[2]
        of_rows, *of_parameters = ctx.made.backward(gradients, learns, ctx.needs_input_grad[0])
        return of_rows, None, *(sum(of_parameters, []) if learns else [None] * len(ctx.saved_tensors))


def groups(count: int, device: torch.device) -> list[Group]:
    """Which of `count` networks are computed together."""
    return list(range(count)) if device.type == "cpu" else [slice(None)]


def product(a: Tensor, b: Tensor, dtype: torch.dtype | None, out: Tensor | None = None) -> Tensor:
    """a·b ``(..., n, out)``, computed in `dtype` where one is given, in the type of `a`."""
    if dtype is None:
        return torch.matmul(a, b, out=out)
    made = torch.matmul(a.to(dtype), b.to(dtype))
    return made.to(a.dtype) if out is None else out.copy_(made)


def affine(
    inputs: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype | None, out: Tensor | None = None
) -> Tensor:
    """``(..., n, out)`` for inputs ``(..., n, in)``, weights ``(..., in, out)`` and biases ``(..., 1, out)``."""
    if weight.shape[-1] == 1:
        return torch.sum(inputs * weight.mT, dim=-1, keepdim=True, out=out).add_(bias)
    if dtype is not None:
        return product(inputs, weight, dtype).add_(bias)
    return (
        torch.addmm(bias, inputs, weight, out=out) if inputs.ndim == 2 else torch.baddbmm(bias, inputs, weight, out=out)
    )


def weight_gradient(inputs: Tensor, gradient: Tensor, dtype: torch.dtype | None, out: Tensor) -> None:
    """Fill ``(..., in, out)`` for inputs ``(..., n, in)`` and gradients ``(..., n, out)`` of a layer's outputs."""
    if gradient.shape[-1] == 1:
        torch.sum(inputs * gradient, dim=-2, out=out.squeeze(-1))
    else:
        product(inputs.mT, gradient, dtype, out=out)


def through(gradient: Tensor, weight: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Gradients ``(..., n, in)`` of a layer's inputs for those of its outputs ``(..., n, out)``."""
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
