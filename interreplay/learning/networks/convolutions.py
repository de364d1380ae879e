"""Convolutional encoders of image observations, by name."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from interreplay.learning.networks.normalization import NormalizedPixels

BODIES: dict[str, tuple[tuple[int, int, int], ...]] = {
    "nature": ((32, 8, 4), (64, 4, 2), (64, 3, 1)),
    "shallow": ((16, 8, 4), (32, 4, 2)),
    "minatar": ((16, 3, 1),),
}
"""Channels, kernel and stride of each layer: nature as in Mnih et al. 2015 (Nature 518), shallow as in Mnih et al. 2013
(arXiv:1312.5602) and IMPALA (arXiv:1802.01561), minatar as in Young & Tian 2019 (arXiv:1903.03176)."""
SEVERAL = 16
"""Minimum number of images for which patches or products in another type are faster."""
MOST_IN_PATCHES = 10_000
"""Maximum total size of an image's patches for which gathering them is faster than a library's convolution."""


class ConvolutionBody(nn.Module):
    """Convolutions with ReLU from images to flat features ``(n, width)``.

    Args:
        shape: Shape of one image: ``(H, W)``, ``(C, H, W)`` or ``(H, W, C)``; a stack of k frames has k before it. The
            shorter of the first and the last of three sides is the number of channels.
        layers: Channels, kernel and stride of each layer.
        most: Pixel value that is scaled to 1, for example 255.

    Attributes:
        width: Number of features.
        normalized: Normalization of the pixels; None if they are only scaled.
        conv_dtype: Type of the products of at least `SEVERAL` images; None for float32.
    """

    conv_dtype: torch.dtype | None = None
    _patches: Tensor | None

    def __init__(self, shape: tuple[int, ...], layers: tuple[tuple[int, int, int], ...], most: float = 255.0):
        super().__init__()
        self.shape = shape
        self.most = most
        self.normalized: NormalizedPixels | None = None
        self.layers, self.width = convolutions(shape, layers)
        places = channels_first(torch.arange(math.prod(shape)).view(1, *shape), shape)
        index = patch_index(places, self.layers[0]) if len(layers) == 1 else None  # type: ignore[arg-type]
        self.register_buffer("_patches", index, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return ``(n, width)`` float32 of images ``(n, *shape)``."""
        if self.normalized is not None:
            images = self.normalized(images)
        # An exported policy has no fixed number of images, so the number is only compared if it matters.
        narrow = self.conv_dtype is not None and len(images) >= SEVERAL
        if self._patches is not None and not narrow and len(images) >= SEVERAL:
            layer: Any = self.layers[0]
            flat = self._scale(images.flatten(1).to(layer.weight.dtype))
            return PatchConvolution.apply(flat, self._patches, layer.weight, layer.bias)
        pixels = channels_first(images, self.shape)
        pixels = self._scale(pixels.to(torch.float32, memory_format=torch.channels_last))
        if not narrow:
            return self.layers(pixels)
        with torch.autocast(pixels.device.type, self.conv_dtype):
            return self.layers(pixels).float()

    def _scale(self, pixels: Tensor) -> Tensor:
        if self.normalized is not None or self.most == 1.0:
            return pixels
        return pixels / self.most


def convolutions(shape: tuple[int, ...], layers: tuple[tuple[int, int, int], ...]) -> tuple[nn.Sequential, int]:
    """Return layers with ReLU from images ``(n, C, H, W)`` to flat features, and the number of features.

    Channels are last in memory, which takes 30 % less time for the layers of Mnih et al.
    """
    pixels = channels_first(torch.zeros(1, *shape), shape)
    made: list[nn.Module] = []
    channels = pixels.shape[1]
    for out, kernel, stride in layers:
        made += [nn.Conv2d(channels, out, kernel, stride), nn.ReLU()]
        channels = out
    together = nn.Sequential(*made, nn.Flatten())
    nn.utils.convert_conv2d_weight_memory_format(together, torch.channels_last)
    with torch.no_grad():
        return together, together(pixels).shape[1]


def channels_first(images: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return images ``(n, *shape)`` as ``(n, C, H, W)``, with stacked frames as channels."""
    if images.ndim == 3:
        return images.unsqueeze(1)
    if shape[-1] < shape[-3]:
        images = images.movedim(-1, -3)
    return images.flatten(1, -3)


def has_pixels(space: gym.Space) -> TypeGuard[gym.spaces.Box]:
    """Return whether a space contains images for `get_body`: bytes or booleans with two sides of at least 5."""
    if not isinstance(space, gym.spaces.Box) or space.dtype not in (np.uint8, bool):
        return False
    return 2 <= len(space.shape) <= 4 and sorted(space.shape)[-2] >= 5


def get_body(space: gym.Space, name: str) -> ConvolutionBody | None:
    """Return the convolutions for a space of images by name; None for other spaces.

    Args:
        space: Space of observations; `has_pixels` defines images.
        name: One of `BODIES`, "flat" for no convolutions, or "auto": minatar below 36 pixels, else nature.

    Raises:
        ValueError: The images are too small for these convolutions.
    """
    if name == "flat" or not has_pixels(space):
        return None
    if name == "auto":
        name = "nature" if sorted(space.shape)[-2] >= 36 else "minatar"
    try:
        return ConvolutionBody(space.shape, BODIES[name], 255.0 if space.dtype == np.uint8 else 1.0)
    except RuntimeError:
        raise ValueError(f"encoder is {name!r} and images are {space.shape}; expected another encoder") from None


def patch_index(places: Tensor, conv: nn.Conv2d) -> Tensor | None:
    """Return the position in an image of each number of its patches; None for more than `MOST_IN_PATCHES`.

    Args:
        places: Position in memory of each number of an image ``(1, C, H, W)``.
        conv: Layer with the kernel and the stride, without padding.

    Returns:
        ``(C·kernel² · positions,)``: for each weight of the kernel, in order, its numbers in all patches.
    """
    high, wide = conv.kernel_size
    down, right = conv.stride
    patches = places[0].unfold(1, high, down).unfold(2, wide, right)  # (C, rows, columns, high, wide)
    if patches.numel() > MOST_IN_PATCHES:
        return None
    return patches.permute(0, 3, 4, 1, 2).reshape(-1)


class PatchConvolution(torch.autograd.Function):
    """ReLU(w ∗ x + b) of flat images ``(n, C·H·W)`` without gradients, as ``(n, outputs · positions)``.

    The gradient of the weights is a product with the same patches.
    """

    @staticmethod
    def forward(ctx: Any, flat: Tensor, index: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Return the outputs for kernels ``(outputs, C, kernel, kernel)`` and the `patch_index` of the images."""
        kernels = weight.reshape(len(weight), -1)
        patches = flat.index_select(1, index).view(len(flat), kernels.shape[1], -1)
        shape = (len(flat), len(weight), patches.shape[2])
        found = torch.baddbmm(bias.view(1, -1, 1).expand(shape), kernels.expand(len(flat), -1, -1), patches).relu_()
        ctx.save_for_backward(patches, found, weight)
        return found.flatten(1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor, Tensor]:
        patches, found, weight = ctx.saved_tensors
        slopes = torch.ops.aten.threshold_backward(gradients[0].reshape(found.shape), found, 0.0)
        return None, None, torch.bmm(slopes, patches.mT).sum(0).view_as(weight), slopes.sum((0, 2))
