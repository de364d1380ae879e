"""Convolutions by name: what comes before the layers of value networks where observations are pixels."""

from __future__ import annotations

import math
from typing import Any

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
"""Channels, kernel and stride of each layer: of Mnih et al. 2015 (Nature 518), of Mnih et al. 2013 (arXiv:1312.5602)
and IMPALA (shallow, arXiv:1802.01561), and of MinAtar (Young & Tian 2019, arXiv:1903.03176)."""
CONV_DTYPES = {"float32": None, "bfloat16": torch.bfloat16}
"""Types of the convolutions' products by name; None leaves them as they are."""
SEVERAL = 16
"""Images from which on products may be narrower, or of patches: one alone, as policies see them, is encoded sooner as
it is."""
MOST_IN_PATCHES = 10_000
"""Numbers in all patches of an image up to which gathering them is faster than a library's convolution."""


class ConvolutionBody(nn.Module):
    """Pixels to the features of some convolutions with ReLU, flat, ``(n, width)``.

    Args:
        shape: Of one image: ``(H, W)``, ``(C, H, W)``, ``(H, W, C)``, or one of these behind k for k stacked frames.
            The shorter one of the first and the last of three sides is the channels.
        layers: Channels, kernel and stride of each layer.
        most: The value that stands for 1; 255 for bytes.

    Attributes:
        width: Number of features.
        normalized: What pixels are normalized by; None where they are only scaled.
        conv_dtype: Of the products where there are `SEVERAL` images or more; None for float32.
    """

    conv_dtype: torch.dtype | None = None
    _patches: Tensor | None

    def __init__(self, shape: tuple[int, ...], layers: tuple[tuple[int, int, int], ...], most: float = 255.0):
        super().__init__()
        self.shape, self.most = shape, most
        self.normalized: NormalizedPixels | None = None
        self.layers, self.width = convolutions(shape, layers)
        places = channels_first(torch.arange(math.prod(shape)).view(1, *shape), shape)
        index = patch_index(places, self.layers[0]) if len(layers) == 1 else None  # type: ignore[arg-type]
        self.register_buffer("_patches", index, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return ``(n, width)`` float32 of images ``(n, *shape)``."""
        narrow = self.conv_dtype is not None and len(images) >= SEVERAL
        if not narrow and self._patches is not None and len(images) >= SEVERAL:
            return self._by_patches(images)
        pixels = channels_first(self._numbers(images), self.shape)
        pixels = self._scaled(pixels.to(torch.float32, memory_format=torch.channels_last))
        if not narrow:
            return self.layers(pixels)
        with torch.autocast(pixels.device.type, self.conv_dtype):
            return self.layers(pixels).float()

    def _numbers(self, images: Tensor) -> Tensor:
        """Return images as they are, or normalized."""
        return images if self.normalized is None else self.normalized(images)

    def _scaled(self, pixels: Tensor) -> Tensor:
        """Return `_numbers` over `most`, as they are where they are normalized."""
        return pixels if self.normalized is not None or self.most == 1.0 else pixels / self.most

    def _by_patches(self, images: Tensor) -> Tensor:
        layer: Any = self.layers[0]
        flat = self._scaled(self._numbers(images).flatten(1).to(layer.weight.dtype))
        return PatchConvolution.apply(flat, self._patches, layer.weight, layer.bias)


def convolutions(shape: tuple[int, ...], layers: tuple[tuple[int, int, int], ...]) -> tuple[nn.Sequential, int]:
    """Return layers with ReLU from images ``(n, C, H, W)`` to flat features, and the number of these.

    Channels lie last in memory: a forward and backward pass of Mnih et al.'s layers takes .7 of the time.

    Args:
        shape: Of one image as `ConvolutionBody` takes them.
        layers: Channels, kernel and stride of each layer.
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
    """Return images ``(n, *shape)`` as ``(n, C, H, W)``, frames of a stack as channels."""
    if images.ndim == 3:
        return images.unsqueeze(1)
    if shape[-1] < shape[-3]:
        images = images.movedim(-1, -3)
    return images.flatten(1, -3)


def body_of(space: gym.Space, name: str) -> ConvolutionBody | None:
    """Return the convolutions for a space by their name, None where it is none of pixels.

    Args:
        space: Bytes or yes-no grids of two long sides are pixels.
        name: One of `BODIES`; "flat" for none; "auto" for nature, below 36 pixels minatar.

    Raises:
        ValueError: The images are too small for these convolutions.
    """
    if name == "flat" or not isinstance(space, gym.spaces.Box) or space.dtype not in (np.uint8, bool):
        return None
    sides = sorted(space.shape)
    if not 2 <= len(sides) <= 4 or sides[-2] < 5:
        return None
    smallest = sides[-2]
    if name == "auto":
        name = "nature" if smallest >= 36 else "minatar"
    try:
        return ConvolutionBody(space.shape, BODIES[name], 255.0 if space.dtype == np.uint8 else 1.0)
    except RuntimeError:
        raise ValueError(f"encoder is {name!r} and images are {space.shape}; expected another encoder") from None


def patch_index(places: Tensor, conv: nn.Conv2d) -> Tensor | None:
    """Return where in an image the numbers of its patches are, None for more than `MOST_IN_PATCHES`.

    Args:
        places: ``(1, C, H, W)``, the position of each number of an image in memory.
        conv: Kernel and stride; without padding.

    Returns:
        ``(C·kernel² · positions,)``, the number in a patch first, in the order of the kernel's weights.
    """
    (high, wide), (down, right) = conv.kernel_size, conv.stride
    patches = places[0].unfold(1, high, down).unfold(2, wide, right)  # (C, rows, columns, high, wide)
    return patches.permute(0, 3, 4, 1, 2).reshape(-1) if patches.numel() <= MOST_IN_PATCHES else None


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
