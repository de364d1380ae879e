"""Stationary kernels over squared differences, and the hyperparameters of many Gaussian processes.

Rasmussen & Williams 2006, Gaussian Processes for Machine Learning, chapter 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

KERNELS = ("rbf", "matern", "rq")
MEANS = ("zero", "constant", "linear")
NU = (0.5, 1.5, 2.5)
LENGTH = 3.0
"""Initial length scale in multiples of √d standard deviations of a feature."""


@dataclass(frozen=True)
class Form:
    """The form of a Gaussian process: everything except the hyperparameters.

    Attributes:
        kernel: ``"rbf"``, ``"matern"`` or ``"rq"``.
        nu: ν of the Matérn kernel: .5, 1.5 or 2.5.
        ard: One length scale per feature instead of one per block.
        mean: ``"zero"``, ``"constant"`` or ``"linear"`` in the features.
        per_target: One kernel per target instead of one for all, which is factorized once.
        composite: κ_s·κ_a, a kernel for states times one for actions.
        blocks: Widths of the blocks of features with one kernel each: ``(d,)``, or ``(d_s, d_a)``; see `over`.

    Raises:
        ValueError: If kernel, mean or ν is unknown.
    """

    kernel: str = "rq"
    nu: float = 2.5
    ard: bool = False
    mean: str = "zero"
    per_target: bool = False
    composite: bool = False
    blocks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, accepted in (("kernel", KERNELS), ("mean", MEANS), ("nu", NU)):
            value = getattr(self, name)
            if value not in accepted:
                raise ValueError(f"{name} is {value!r}; expected one of {', '.join(map(str, accepted))}")

    def over(self, features: int, actions: int) -> Form:
        """Return the form for d features, of which the last d_a are actions."""
        blocks = (features - actions, actions) if self.composite else (features,)
        return replace(self, blocks=tuple(block for block in blocks if block))

    @property
    def features(self) -> int:
        """Number of features d."""
        return sum(self.blocks)

    @property
    def slices(self) -> list[slice]:
        """Positions of the blocks of features."""
        return [slice(end - width, end) for end, width in zip(accumulate(self.blocks), self.blocks, strict=True)]

    def groups(self, targets: int) -> int:
        """Return the number of kernels G for T targets: T, or 1 if they share one."""
        return targets if self.per_target else 1


@dataclass(frozen=True)
class Hyperparameters:
    """b sets of hyperparameters of Gaussian processes over T targets and d features, with G kernels each (1 or T).

    b is the number of neighborhoods, or 1 if they share hyperparameters.

    Attributes:
        lengthscale: ``(b, G, d)``.
        outputscale: σ_f² ``(b, G)``.
        noise: σ_n² ``(b, G)``.
        alpha: α of the rational quadratic kernel ``(b, G, blocks)``.
        constant: Constant of the mean ``(b, T)``; 0 if it has none.
        slope: Slope of the mean ``(b, T, d)``; None unless it is linear.
    """

    lengthscale: Tensor
    outputscale: Tensor
    noise: Tensor
    alpha: Tensor
    constant: Tensor
    slope: Tensor | None = None

    def map(self, fn: Callable[[Tensor], Tensor]) -> Hyperparameters:
        """Return hyperparameters with `fn` applied to every tensor."""
        return Hyperparameters(**{name: fn(value) for name, value in self.as_dict().items()})

    def as_dict(self) -> dict[str, Tensor]:
        """Return the tensors by name."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in named.items() if value is not None}

    def average(self) -> Hyperparameters:
        """Return one set, the mean over all b: the geometric mean for positive ones.

        Likelihoods of a few points are flat. With arithmetic means, a single neighborhood with an extreme length scale
        or noise would determine the result.
        """
        means = {}
        for name, value in self.as_dict().items():
            if name in ("constant", "slope"):
                means[name] = value.mean(dim=0, keepdim=True)
            else:
                means[name] = value.log().mean(dim=0, keepdim=True).exp()
        return Hyperparameters(**means)

    def finite(self) -> Tensor:
        """Return which of the b sets are finite, bool ``(b,)``."""
        return torch.stack([value.isfinite().flatten(1).all(1) for value in self.as_dict().values()]).all(0)

    @classmethod
    def initial(cls, form: Form, targets: int, spread: float, dtype: torch.dtype, device: Any) -> Hyperparameters:
        """Return the initial values of fits: nearly linear functions, as dynamics are within a neighborhood.

        Distances between points in d features grow as √d. With a constant length scale all points would be
        uncorrelated, and every prediction would be the mean (Hvarfner et al. 2024, arXiv:2402.02229). It is therefore
        3√d standard deviations. With σ_f² = 9, targets vary by about 1 within a neighborhood.

        Args:
            form: Form of the processes.
            targets: Number of targets T.
            spread: Standard deviation of a scaled feature.
            dtype: Dtype of all tensors.
            device: Device of all tensors.
        """
        groups = form.groups(targets)
        d = form.features

        def full(*shape: int, value: float) -> Tensor:
            return torch.full((1, *shape), value, dtype=dtype, device=device)

        return cls(
            lengthscale=full(groups, d, value=LENGTH * spread * math.sqrt(d)),
            outputscale=full(groups, value=LENGTH**2),
            noise=full(groups, value=0.02),
            alpha=full(groups, len(form.blocks), value=1.0),
            constant=full(targets, value=0.0),
            slope=full(targets, d, value=0.0) if form.mean == "linear" else None,
        )


def covariance(form: Form, hyper: Hyperparameters, squares: Tensor) -> Tensor:
    """Return κ without its scale σ_f² for squared differences of pairs.

    All kernels share the squared differences; each costs one product with 1/ℓ². In contrast to differences of squares,
    they are exact: 0 for equal points and never negative.

    Args:
        form: Form of the processes.
        hyper: Hyperparameters of b neighborhoods, or one set for all.
        squares: (z_i − z_j)² per feature, ``(n, p, d)`` for p pairs.

    Returns:
        Covariances ``(n, G, p)``.
    """
    inverse = hyper.lengthscale.square().reciprocal()
    product: Tensor | None = None
    for number, block in enumerate(form.slices):
        part = squares[..., block] if len(form.blocks) > 1 else squares
        if len(inverse) == 1:
            r2 = (part.reshape(-1, part.shape[-1]) @ inverse[0, :, block].mT).view(*part.shape[:2], -1).mT
        else:
            r2 = inverse[..., block] @ part.mT
        value = _kernel(form, r2, hyper.alpha[..., number].unsqueeze(-1))
        product = value if product is None else product * value
    assert product is not None
    return product


def _kernel(form: Form, r2: Tensor, alpha: Tensor) -> Tensor:
    """Return κ for scaled squared distances r²."""
    if form.kernel == "rbf":
        return torch.exp(-0.5 * r2)
    if form.kernel == "rq":
        return torch.exp(-alpha * torch.log1p(r2 / (2.0 * alpha)))
    r = r2.sqrt() * math.sqrt(2.0 * form.nu)
    if form.nu == 0.5:
        return torch.exp(-r)
    polynomial = 1.0 + r
    if form.nu == 2.5:
        polynomial = polynomial + r * r / 3.0
    return polynomial * torch.exp(-r)
