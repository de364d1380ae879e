"""Products of the matrices of stacked networks, and the gradients of such products."""

from __future__ import annotations

import torch
from torch import Tensor


def product(a: Tensor, b: Tensor, dtype: torch.dtype | None, out: Tensor | None = None) -> Tensor:
    """Return a·b ``(..., n, out)`` in the type of `a`, computed in `dtype` if one is given."""
    multiply = torch.mm if a.ndim == 2 else torch.matmul
    if dtype is None:
        return multiply(a, b, out=out)
    found = multiply(a.to(dtype), b.to(dtype))
    return found.to(a.dtype) if out is None else out.copy_(found)


def affine(inputs: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Return inputs·weight + bias.

    Args:
        inputs: ``(..., n, in)``.
        weight: ``(..., in, out)``.
        bias: ``(..., 1, out)``.
        dtype: Type of the product; None for the type of the inputs.

    Returns:
        ``(..., n, out)``.
    """
    if weight.shape[-1] == 1:
        if weight.ndim == 2:
            return torch.addmv(bias[0], inputs, weight[:, 0]).unsqueeze(1)
        return torch.sum(inputs * weight.mT, dim=-1, keepdim=True).add_(bias)
    if dtype is not None:
        return product(inputs, weight, dtype).add_(bias)
    return torch.addmm(bias, inputs, weight) if inputs.ndim == 2 else torch.baddbmm(bias, inputs, weight)


def weight_gradient(inputs: Tensor, gradient: Tensor, dtype: torch.dtype | None, out: Tensor) -> None:
    """Compute the gradient of a layer's weights.

    Args:
        inputs: The layer's inputs ``(..., n, in)``.
        gradient: Gradient of its outputs ``(..., n, out)``.
        dtype: Type of the product; None for the type of the inputs.
        out: Receives the result ``(..., in, out)``.
    """
    if gradient.shape[-1] > 1:
        product(inputs.mT, gradient, dtype, out=out)
    elif gradient.ndim == 2:
        torch.mv(inputs.t(), gradient[:, 0], out=out[:, 0])
    else:
        torch.sum(inputs * gradient, dim=-2, out=out.squeeze(-1))


def input_gradient(gradient: Tensor, transposed: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Return the gradient of a layer's inputs.

    Args:
        gradient: Gradient of its outputs ``(..., n, out)``.
        transposed: Its weights ``(..., out, in)``.
        dtype: Type of the product; None for the type of the gradient.

    Returns:
        ``(..., n, in)``.
    """
    if transposed.shape[-1] < transposed.shape[-2]:
        # With few inputs, a product with the inputs as its rows is faster than with the inputs as its columns.
        return product(transposed.mT, gradient.mT, dtype).mT
    return product(gradient, transposed, dtype)


def bias_gradient(gradient: Tensor, ones: Tensor, out: Tensor) -> None:
    """Compute the gradient of a layer's biases.

    Args:
        gradient: Gradient of its outputs ``(..., n, out)``.
        ones: ``(1, n)``.
        out: Receives the sums over the rows ``(..., 1, out)``.
    """
    if gradient.ndim == 2 and gradient.shape[1] > 1:  # a product takes half the time of a sum on the processor
        torch.mm(ones, gradient, out=out)
    else:
        torch.sum(gradient, dim=-2, keepdim=True, out=out)
