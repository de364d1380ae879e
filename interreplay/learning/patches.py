"""A convolution of small images as one product of their patches, which are looked up by their places."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

MOST = 10_000
"""Numbers in all patches of an image up to which gathering them takes less than a library's convolution does."""


def patch_index(places: Tensor, conv: nn.Conv2d) -> Tensor | None:
    """Return where in an image the numbers of its patches are, None for more than `MOST`.

    Args:
        places: ``(1, C, H, W)``, where each number of an image lies in memory.
        conv: Kernel and stride; without padding.

    Returns:
        ``(C·kernel² · positions,)``, the number in a patch first, in the order of the kernel's weights.
    """
    (high, wide), (down, right) = conv.kernel_size, conv.stride
    patches = places[0].unfold(1, high, down).unfold(2, wide, right)  # (C, rows, columns, high, wide)
    return patches.permute(0, 3, 4, 1, 2).reshape(-1) if patches.numel() <= MOST else None


class PatchConvolution(torch.autograd.Function):
    """ReLU(w ∗ x + b) of flat images ``(n, C·H·W)`` that need no gradient, as ``(n, outputs · positions)``.

    Gradients are by hand: the weights' is a product with the same patches.
    """

    @staticmethod
    def forward(ctx: Any, flat: Tensor, index: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Run it for kernels ``(outputs, C, kernel, kernel)`` and the `patch_index` of the images."""
        kernels = weight.reshape(len(weight), -1)
        patches = flat.index_select(1, index).view(len(flat), kernels.shape[1], -1)
        shape = (len(flat), len(weight), patches.shape[2])
        found = torch.baddbmm(bias.view(1, -1, 1).expand(shape), kernels.expand(len(flat), -1, -1), patches).relu_()
        ctx.save_for_backward(patches, found, weight)
        return found.flatten(1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor, Tensor]:
        """Return the gradients of weights and biases."""
        patches, found, weight = ctx.saved_tensors
        slopes = torch.ops.aten.threshold_backward(gradients[0].reshape(found.shape), found, 0.0)
        return None, None, torch.bmm(slopes, patches.mT).sum(0).view_as(weight), slopes.sum((0, 2))
