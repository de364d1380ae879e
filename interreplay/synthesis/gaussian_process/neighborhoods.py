"""Neighborhoods as Gaussian processes use them: scaled features [s; a] and targets [r; Δs]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from interreplay.errors import check_number
from interreplay.transitions import Transitions, flat_parts, join_parts, observation_parts

PRECISIONS = {"float32": torch.float32, "float64": torch.float64}
SPREAD = {"standardize": 1.0, "minmax": 0.3, "none": 1.0}
"""Scalings and the approximate standard deviation of a scaled feature, which initial length scales depend on."""


class Scale(NamedTuple):
    """An affine map per neighborhood and number: x → (x − center) / width, with tensors ``(n, 1, d)``."""

    center: Tensor
    width: Tensor

    def apply(self, x: Tensor) -> Tensor:
        """Return scaled points ``(n, m, d)``."""
        return (x - self.center) / self.width

    def undo(self, x: Tensor) -> Tensor:
        """Return the inverse of `apply`."""
        return torch.addcmul(self.center, x, self.width)


def fit_scale(x: Tensor, kind: str) -> Scale:
    """Return the map for points ``(n, m, d)``: mean and standard deviation (dividing by m), or minimum and range."""
    if kind == "none":
        return Scale(torch.zeros_like(x[:, :1]), torch.ones_like(x[:, :1]))
    low, high = x.aminmax(dim=1, keepdim=True)
    center = low
    width = high - low
    if kind == "standardize":
        center = x.mean(dim=1, keepdim=True)
        width = (x - center).square().mean(dim=1, keepdim=True).sqrt()
    # The deviation of equal numbers is a rounding error, and that of tiny numbers may round to 0.
    return Scale(center, torch.where((high > low) & (width > 0), width, 1.0))


def principal_axes(x: Tensor, components: int) -> Tensor:
    """Return the `components` directions ``(n, d, c)`` of largest variance of points ``(n, m, d)``, unit vectors.

    The largest number of each is positive, so that equal points give equal axes.
    """
    centered = x - x.mean(dim=1, keepdim=True)
    axes = torch.linalg.svd(centered, full_matrices=x.shape[1] < components).Vh[:, :components].mT
    largest = axes.gather(1, axes.abs().argmax(dim=1, keepdim=True))
    return axes * torch.where(largest < 0, -1.0, 1.0)


@dataclass(frozen=True)
class Neighborhoods:
    """n neighborhoods of m points, the anchor first.

    Attributes:
        x: Scaled features ``(n, m, c)``; c is d, or the number of principal components.
        y: Targets ``(n, m, T)``, scaled to mean 0 and standard deviation 1 within each neighborhood.
        targets: Scale of the targets.
        features: Scale of the features relative to the anchor.
        axes: Principal axes ``(n, d, c)`` or None.
        spread: Approximate standard deviation of a scaled feature.
    """

    x: Tensor
    y: Tensor
    targets: Scale
    features: Scale
    axes: Tensor | None
    spread: float

    def place(self, offsets: Tensor) -> Tensor:
        """Return the scaled features ``(n, q, c)`` of points relative to the anchors ``(n, q, d)``."""
        scaled = self.features.apply(offsets)
        if self.axes is None:
            return scaled
        return scaled @ self.axes


@dataclass(frozen=True)
class Preparation:
    """Scaling of neighborhoods.

    Attributes:
        scaling: Scaling of features within each neighborhood: ``"standardize"``, ``"minmax"`` or ``"none"``.
        components: Number of principal components of the scaled features, or None for the features themselves.
        precision: ``"float32"`` or ``"float64"``.
    """

    scaling: str = "standardize"
    components: int | None = None
    precision: str = "float32"

    def __post_init__(self) -> None:
        for name, accepted in (("scaling", SPREAD), ("precision", PRECISIONS)):
            if getattr(self, name) not in accepted:
                raise ValueError(f"{name} is {getattr(self, name)!r}; expected one of {', '.join(accepted)}")
        if self.components is not None:
            check_number("pca_components", self.components, 1, whole=True)

    def __call__(self, z: Tensor, y: Tensor) -> Neighborhoods:
        """Scale points with features z ``(n, m, d)`` and targets y ``(n, m, T)``, the anchor first."""
        dtype = PRECISIONS[self.precision]
        offsets = (z - z[:, :1]).to(dtype)  # subtracted in the rows' precision, for values far from 0
        y = y.to(dtype)
        targets = fit_scale(y, "standardize")
        features = fit_scale(offsets, self.scaling)
        x = features.apply(offsets)
        axes = None
        if self.components is not None:
            axes = principal_axes(x, min(self.components, x.shape[2]))
            x = x @ axes
        return Neighborhoods(x, targets.apply(y), targets, features=features, axes=axes, spread=SPREAD[self.scaling])


def stack_inputs(rows: Transitions) -> Tensor:
    """Return z = [s; a] ``(..., d)`` of rows ``(n, ...)`` or ``(n, m, ...)``, without discrete values."""
    lead = rows.rewards.dim()
    parts = flat_parts(rows.obs, lead) + flat_parts(rows.actions, lead)
    return torch.cat(list(filter(torch.is_floating_point, parts)), dim=-1)


def stack_targets(rows: Transitions) -> Tensor:
    """Return the targets y = [r; Δs] of rows ``(n, ...)`` or ``(n, m, ...)``, without discrete values."""
    lead = rows.rewards.dim()
    rewards = rows.rewards.unsqueeze(-1)
    starts = list(filter(torch.is_floating_point, flat_parts(rows.obs, lead)))
    if not starts:
        return rewards
    ends = list(filter(torch.is_floating_point, flat_parts(rows.next_obs, lead)))
    changes = torch.cat(ends, dim=-1) - torch.cat(starts, dim=-1)
    return torch.cat([rewards.to(changes), changes], dim=-1)


def with_outcome(rows: Transitions, y: Tensor) -> Transitions:
    """Return `rows` ``(n, ...)`` with the reward and the change of state in y = [r; Δs] ``(n, T)``.

    Discrete values of s' do not change.
    """
    moved = observation_parts(rows.next_obs)
    first = 1
    for name, part in observation_parts(rows.obs).items():
        if part.is_floating_point():
            last = first + part[0].numel()
            moved[name] = part + y[:, first:last].reshape(part.shape).to(part)
            first = last
    return rows.replace(rewards=y[:, 0].to(rows.rewards), next_obs=join_parts(moved))
