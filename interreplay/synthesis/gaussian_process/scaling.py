"""Scaling of features and targets within each neighborhood, and principal components of the features."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

SCALINGS = ("standardize", "minmax", "none")
SPREAD = {"standardize": 1.0, "minmax": 0.3, "none": 1.0}
"""Standard deviation of a scaled feature, roughly, with which length scales start."""


class Scale(NamedTuple):
    """An affine map per neighborhood and number: x → (x − center) / width.

    Attributes:
        center: ``(n, 1, d)``.
        width: ``(n, 1, d)``; 1 for numbers that do not vary.
    """

    center: Tensor
    width: Tensor

    def apply(self, x: Tensor) -> Tensor:
        """Return scaled ``(n, m, d)``."""
        return (x - self.center) / self.width

    def undo(self, x: Tensor) -> Tensor:
        """Return the inverse of `apply`."""
        return torch.addcmul(self.center, x, self.width)


def scale_of(x: Tensor, kind: str) -> Scale:
    """Return the map for points ``(n, m, d)``: mean and standard deviation (dividing by m), or minimum and range.

    Raises:
        ValueError: When `kind` is not one of the three.
    """
    if kind not in SCALINGS:
        raise ValueError(f"scaling is {kind!r}; expected one of {', '.join(SCALINGS)}")
    if kind == "none":
        return Scale(torch.zeros_like(x[:, :1]), torch.ones_like(x[:, :1]))
    low, high = x.aminmax(dim=1, keepdim=True)
    if kind == "minmax":
        center, width = low, high - low
    else:
        center = x.mean(dim=1, keepdim=True)
        width = (x - center).square().mean(dim=1, keepdim=True).sqrt()
    # The deviation of equal numbers from their mean is rounding, and that of tiny numbers may round to 0.
    return Scale(center, torch.where((high > low) & (width > 0), width, 1.0))


def principal_axes(x: Tensor, components: int) -> Tensor:
    """Find the `components` directions ``(n, d, c)`` in which points ``(n, m, d)`` vary most, unit vectors.

    The sign of each is that which makes its largest number positive, so that equal points give equal axes.
    """
    centered = x - x.mean(dim=1, keepdim=True)
    axes = torch.linalg.svd(centered, full_matrices=x.shape[1] < components).Vh[:, :components].mT
    largest = axes.gather(1, axes.abs().argmax(dim=1, keepdim=True))
    return axes * torch.where(largest < 0, -1.0, 1.0)
