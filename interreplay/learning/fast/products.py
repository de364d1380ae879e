"""Products of the matrices of stacked networks, and the gradients of such products."""

from __future__ import annotations

import torch
from torch import Tensor


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
