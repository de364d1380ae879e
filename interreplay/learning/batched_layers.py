"""Several networks of one shape as one function of autograd, with a backward pass of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class BatchedLayers(torch.autograd.Function):
    """m fully connected networks of one shape with ReLU between layers.

    A GPU takes all networks in one product per layer. A processor takes one network after the other, whose
    activations then stay in its cache, and leaves out rows that get no gradient, as do those of the critic that is
    not the minimum. Autograd's own backward of `torch.baddbmm` would hand out transposed gradients, which ReLU's
    backward walks through against the grain, and multiply matrices with one column as if they had many.
    `docs/performance.md` has the figures.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, learns: bool, *parameters: Tensor) -> Tensor:
        """Outputs ``(m, n, out)`` for rows ``(n, in)`` that all m networks see.

        Args:
            ctx: Autograd's.
            x: Rows.
            learns: Whether the parameters get gradients.
            *parameters: Weights ``(m, in, out)`` of every layer, then biases ``(m, 1, out)`` of every layer.
        """
        middle = len(parameters) // 2
        weights, biases = parameters[:middle], parameters[middle:]
        ctx.learns, ctx.groups, ctx.inputs = learns, groups(len(weights[0]), x.device), []
        outputs = x.new_empty(len(weights[0]), len(x), weights[-1].shape[-1])
        for group in ctx.groups:
            inputs = [x if isinstance(group, int) else x.expand(len(outputs), *x.shape)]
            for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
                inputs.append(affine(inputs[-1], weight[group], bias[group]).relu_())
            affine(inputs[-1], weights[-1][group], biases[-1][group], out=outputs[group])
            ctx.inputs.append(inputs)
        ctx.save_for_backward(*weights)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the rows and of all parameters, those that are needed."""
        weights: Sequence[Tensor] = ctx.saved_tensors
        learns = ctx.learns and ctx.needs_input_grad[2]
        of_weights: list[Any] = [torch.empty_like(w) if learns else None for w in weights]
        of_biases: list[Any] = [w.new_empty(len(w), 1, w.shape[-1]) if learns else None for w in weights]
        of_rows = gradients.new_zeros(gradients.shape[1], weights[0].shape[1]) if ctx.needs_input_grad[0] else None
        for group, inputs in zip(ctx.groups, ctx.inputs, strict=True):
            gradient, rows = gradients[group], None
            if isinstance(group, int) and gradient.shape[-1] == 1 and not learns:
                rows = gradient[:, 0].nonzero().squeeze(1)
                gradient, inputs = gradient[rows], [values[rows] for values in inputs]
            for i in reversed(range(len(weights))):
                if learns:
                    weight_gradient(inputs[i], gradient, out=of_weights[i][group])
                    torch.sum(gradient, dim=-2, keepdim=True, out=of_biases[i][group])
                if i:
                    gradient = torch.ops.aten.threshold_backward(through(gradient, weights[i][group]), inputs[i], 0)
            if of_rows is not None:
                add_rows(of_rows, rows, through(gradient, weights[0][group]))
        return of_rows, None, *of_weights, *of_biases


def groups(count: int, device: torch.device) -> list[int] | list[slice]:
    """Which of `count` networks are computed together."""
    return list(range(count)) if device.type == "cpu" else [slice(None)]


def affine(inputs: Tensor, weight: Tensor, bias: Tensor, out: Tensor | None = None) -> Tensor:
    """``(..., n, out)`` for inputs ``(..., n, in)``, weights ``(..., in, out)`` and biases ``(..., 1, out)``."""
    if weight.shape[-1] == 1:
        return torch.sum(inputs * weight.mT, dim=-1, keepdim=True, out=out).add_(bias)
    return (
        torch.addmm(bias, inputs, weight, out=out) if inputs.ndim == 2 else torch.baddbmm(bias, inputs, weight, out=out)
    )


def weight_gradient(inputs: Tensor, gradient: Tensor, out: Tensor) -> None:
    """Fill ``(..., in, out)`` for inputs ``(..., n, in)`` and gradients ``(..., n, out)`` of a layer's outputs."""
    if gradient.shape[-1] == 1:
        torch.sum(inputs * gradient, dim=-2, out=out.squeeze(-1))
    else:
        torch.matmul(inputs.mT, gradient, out=out)


def through(gradient: Tensor, weight: Tensor) -> Tensor:
    """Gradients ``(..., n, in)`` of a layer's inputs for those of its outputs ``(..., n, out)``."""
    if gradient.shape[-1] == 1:
        return gradient * weight.mT
    if weight.shape[-2] < weight.shape[-1]:
        # The few inputs as rows of the product are faster than as its columns.
        return torch.matmul(weight, gradient.mT).mT
    return torch.matmul(gradient, weight.mT)


def add_rows(total: Tensor, rows: Tensor | None, values: Tensor) -> None:
    """Add values ``(k, d)`` to the rows ``(k,)`` of the total ``(n, d)``, or values ``(m, n, d)`` of m networks."""
    if rows is None:
        total.add_(values if values.ndim == 2 else values.sum(dim=0))
    else:
        total.index_add_(0, rows, values)
