"""From transitions to what Gaussian processes work on: scaled features [s; a] and targets [r; Δs], and back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from interreplay.argument_checks import check_number
from interreplay.synthesis.gaussian_process.scaling import SCALINGS, SPREAD, Scale, principal_axes, scale_of
from interreplay.transitions import Transitions, flat_parts, join_parts, observation_parts

PRECISIONS = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Neighborhoods:
    """n neighborhoods of m points, the anchor first.

    Attributes:
        x: Features ``(n, m, c)``, scaled; c is d, or the number of principal components.
        y: Targets ``(n, m, T)``, scaled to mean 0 and standard deviation 1 within each neighborhood.
        targets: How targets were scaled.
        features: How features were scaled, after the anchor's were taken away.
        axes: Principal axes ``(n, d, c)`` or None.
        spread: Standard deviation of a scaled feature, roughly.
    """

    x: Tensor
    y: Tensor
    targets: Scale
    features: Scale
    axes: Tensor | None
    spread: float

    def place(self, offsets: Tensor) -> Tensor:
        """Return points ``(n, q, d)``, given relative to the anchors, among the features: ``(n, q, c)``."""
        scaled = self.features.apply(offsets)
        return scaled if self.axes is None else scaled @ self.axes


@dataclass(frozen=True)
class Preparation:
    """How neighborhoods are scaled.

    Attributes:
        scaling: Of features within each neighborhood: ``"standardize"``, ``"minmax"`` or ``"none"``.
        components: Principal components to keep of the scaled features, or None for the features themselves.
        precision: ``"float32"`` or ``"float64"``.

    Raises:
        ValueError: When one of them is none of those.
    """

    scaling: str = "standardize"
    components: int | None = None
    precision: str = "float32"

    def __post_init__(self) -> None:
        if self.scaling not in SCALINGS:
            raise ValueError(f"scaling is {self.scaling!r}; expected one of {', '.join(SCALINGS)}")
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision is {self.precision!r}; expected one of {', '.join(PRECISIONS)}")
        if self.components is not None:
            check_number("pca_components", self.components, 1, whole=True)

    @property
    def dtype(self) -> torch.dtype:
        """That of all numbers."""
        return PRECISIONS[self.precision]

    def __call__(self, z: Tensor, y: Tensor) -> Neighborhoods:
        """Scale points with features z ``(n, m, d)`` and targets y ``(n, m, T)``, the anchor first."""
        offsets = (z - z[:, :1]).to(self.dtype)  # in the rows' precision, for what is far from 0
        targets, features = scale_of(y.to(self.dtype), "standardize"), scale_of(offsets, self.scaling)
        x, axes = features.apply(offsets), None
        if self.components is not None:
            axes = principal_axes(x, min(self.components, x.shape[2]))
            x = x @ axes
        return Neighborhoods(x, targets.apply(y.to(self.dtype)), targets, features, axes, SPREAD[self.scaling])


def inputs_of(rows: Transitions) -> Tensor:
    """Return z = [s; a] of rows ``(n, ...)`` or ``(n, m, ...)``, ``(n, d)`` or ``(n, m, d)``; without choices."""
    lead = rows.rewards.dim()
    parts = [*flat_parts(rows.obs, lead), *flat_parts(rows.actions, lead)]
    return torch.cat([part for part in parts if part.is_floating_point()], dim=-1)


def targets_of(rows: Transitions) -> Tensor:
    """Return the targets y = [r; Δs] of rows ``(n, ...)`` or ``(n, m, ...)``; choices in s are none."""
    lead = rows.rewards.dim()
    ends = zip(flat_parts(rows.next_obs, lead), flat_parts(rows.obs, lead), strict=True)
    changes = [end - start for end, start in ends if start.is_floating_point()]
    rewards = rows.rewards.unsqueeze(-1)
    return torch.cat([rewards.to(changes[0]) if changes else rewards, *changes], dim=-1)


def with_outcome(rows: Transitions, y: Tensor) -> Transitions:
    """Return `rows` ``(n, ...)`` with the reward and the change of state in y = [r; Δs] ``(n, T)``.

    Choices in s' stay those of `rows`.
    """
    parts = {name: part for name, part in observation_parts(rows.obs).items() if part.is_floating_point()}
    widths = [part[0].numel() for part in parts.values()]
    changes = y[:, 1:].split(widths, dim=1)
    moved = dict(observation_parts(rows.next_obs))
    for (name, part), change in zip(parts.items(), changes, strict=True):
        moved[name] = part + change.reshape(part.shape).to(part)
    return rows.replace(rewards=y[:, 0].to(rows.rewards), next_obs=join_parts(moved))
