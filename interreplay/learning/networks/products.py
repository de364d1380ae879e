"""Products of the matrices of stacked networks, and the gradients of such products.

Shapes are those of one network; for m networks at once, each has a leading m, and biases are ``(m, 1, out)``. The
weight of a layer with one output may be a vector ``(in,)``, whose products are faster than those of one column.
"""

from __future__ import annotations

import torch
from torch import Tensor


def product(a: Tensor, b: Tensor, dtype: torch.dtype | None, out: Tensor | None = None) -> Tensor:
    """Return a·b ``(n, out)`` in the type of `a`, computed in `dtype` if one is given."""
    if dtype is None:
        if a.ndim == 2:
            return torch.mm(a, b, out=out)
        return torch.bmm(a, b, out=out)
    found = torch.matmul(a.to(dtype), b.to(dtype))
    return found.to(a.dtype) if out is None else out.copy_(found)


def affine(inputs: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return inputs·weight + bias.

    Args:
        inputs: ``(n, in)``.
        weight: ``(in, out)``, or ``(in,)`` for one output.
        bias: ``(out,)``.
        dtype: Type of the product; None for the type of the inputs.

    Returns:
        ``(n, out)``.
    """
    if weight.ndim == 1:
        return torch.addmv(bias, inputs, weight).unsqueeze(1)
    if dtype is not None:
        return product(inputs, weight, dtype).add_(bias)
    if inputs.ndim == 2:
        return torch.addmm(bias, inputs, weight)
    return torch.baddbmm(bias, inputs, weight)


def weight_gradient(inputs: Tensor, gradient: Tensor, dtype: torch.dtype | None, out: Tensor) -> None:
    """Compute the gradient of a layer's weight.

    Args:
        inputs: The layer's inputs ``(n, in)``.
        gradient: Gradient of its outputs ``(n, out)``.
        dtype: Type of the product; None for the type of the inputs.
        out: Receives the result, of the shape of the weight.
    """
    if out.ndim == 1:
        torch.mv(inputs.t(), gradient[:, 0], out=out)
    else:
        product(inputs.mT, gradient, dtype, out=out)


def input_gradient(gradient: Tensor, weight: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return the gradient of a layer's inputs.

    Args:
        gradient: Gradient of its outputs ``(n, out)``.
        weight: ``(in, out)``, or ``(in,)`` for one output.
        dtype: Type of the product; None for the type of the gradient.

    Returns:
        ``(n, in)``.
    """
    if weight.ndim == 1:
        return gradient * weight
    if weight.shape[-2] < weight.shape[-1]:
        # With few inputs, a product with the inputs as its rows is faster than with the inputs as its columns.
        return product(weight, gradient.mT, dtype).mT
    return product(gradient, weight.mT, dtype)


def bias_gradient(gradient: Tensor, out: Tensor) -> None:
    """Compute the gradient of a layer's bias.

    Args:
        gradient: Gradient of its outputs ``(n, out)``.
        out: Receives the sums over the rows, of the shape of the bias.
    """
    torch.sum(gradient, dim=-2, keepdim=out.ndim == 3, out=out)
