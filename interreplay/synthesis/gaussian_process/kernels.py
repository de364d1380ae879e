"""Stationary kernels over squared differences, and the hyperparameters of many Gaussian processes at once.

Rasmussen & Williams 2006, Gaussian Processes for Machine Learning, chapter 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

KERNELS = ("rbf", "matern", "rq")
MEANS = ("zero", "constant", "linear")
NU = (0.5, 1.5, 2.5)
LENGTH = 3.0
"""Length scale at the start, as a multiple of √d standard deviations of a feature."""


@dataclass(frozen=True)
class Form:
    """What kind of Gaussian process it is; all that is not a number to be fitted.

    Attributes:
        kernel: ``"rbf"``, ``"matern"`` or ``"rq"``.
        nu: ν of the Matérn kernel: .5, 1.5 or 2.5.
        ard: One length scale per feature; one for all of a block without.
        mean: ``"zero"``, ``"constant"`` or ``"linear"`` in the features.
        per_target: Each target has a kernel of its own; one kernel for all without, which is factorized once.
        composite: κ_s·κ_a, a kernel for states times one for actions.
        blocks: Widths of the groups of features, one kernel each: ``(d,)``, or ``(d_s, d_a)``; see `over`.

    Raises:
        ValueError: When one of them is none of those.
    """

    kernel: str = "rq"
    nu: float = 2.5
    ard: bool = False
    mean: str = "zero"
    per_target: bool = False
    composite: bool = False
    blocks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, value, accepted in (
            ("kernel", self.kernel, KERNELS),
            ("mean", self.mean, MEANS),
            ("nu", self.nu, NU),
        ):
            if value not in accepted:
                raise ValueError(f"{name} is {value!r}; expected one of {', '.join(map(str, accepted))}")

    def over(self, features: int, actions: int) -> Form:
        """Return the same for d features, of which the last d_a, if any, are those of actions."""
        blocks = (features - actions, actions) if self.composite else (features,)
        return replace(self, blocks=tuple(block for block in blocks if block))

    @property
    def features(self) -> int:
        """Number of features d."""
        return sum(self.blocks)

    @property
    def slices(self) -> list[slice]:
        """Where each block of features lies."""
        ends = [sum(self.blocks[: i + 1]) for i in range(len(self.blocks))]
        return [slice(end - width, end) for end, width in zip(ends, self.blocks, strict=True)]

    def groups(self, targets: int) -> int:
        """Return the number of kernels G for T targets: T, or 1 where they share one."""
        return targets if self.per_target else 1


@dataclass(frozen=True)
class Hyperparameters:
    """Numbers of b sets of Gaussian processes over T targets with G kernels each (G is 1 or T), d features.

    b is the number of neighborhoods where each has its own, 1 where they share them.

    Attributes:
        lengthscale: ``(b, G, d)``.
        outputscale: σ_f² ``(b, G)``.
        noise: σ_n² ``(b, G)``.
        alpha: ``(b, G, blocks)``, of the rational quadratic kernel.
        constant: Of the mean, ``(b, T)``; 0 where it has none.
        slope: Of the mean, ``(b, T, d)``; None unless it is linear.
    """

    lengthscale: Tensor
    outputscale: Tensor
    noise: Tensor
    alpha: Tensor
    constant: Tensor
    slope: Tensor | None = None

    def map(self, fn: Any) -> Hyperparameters:
        """Return the same with `fn` applied to every tensor."""
        return Hyperparameters(**{k: fn(v) for k, v in self.as_dict().items()})

    def as_dict(self) -> dict[str, Tensor]:
        """Return the tensors by name."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in named.items() if value is not None}

    def average(self) -> Hyperparameters:
        """Return one set, the mean over all b: of their logarithms for what is positive.

        Likelihoods of a few points are flat; with the mean of the numbers themselves, the one neighborhood whose
        length scale or noise runs away would decide for all.
        """
        means = {}
        for name, value in self.as_dict().items():
            signed = name in ("constant", "slope")
            mean = (value if signed else value.log()).mean(dim=0, keepdim=True)
            means[name] = mean if signed else mean.exp()
        return Hyperparameters(**means)

    def finite(self) -> Tensor:
        """Return which of the b sets are finite throughout, bool ``(b,)``."""
        return torch.stack([v.isfinite().flatten(1).all(1) for v in self.as_dict().values()]).all(0)

    @classmethod
    def initial(cls, form: Form, targets: int, spread: float, dtype: torch.dtype, device: Any) -> Hyperparameters:
        """Return where fits start: nearly linear functions, as dynamics are within a neighborhood.

        Distances between points in d features grow as √d. A length scale that does not grow along leaves all points
        uncorrelated, and every prediction at the mean (Hvarfner et al. 2024, arXiv:2402.02229). It starts at 3√d
        standard deviations. With σ_f² = 9 targets then vary by about 1 within a neighborhood.

        Args:
            form: Of the processes.
            targets: T.
            spread: Standard deviation of a scaled feature.
            dtype: Of all tensors.
            device: Of all tensors.
        """
        groups, d = form.groups(targets), form.features

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

    Squared differences, not distances, because they are shared by all kernels: each costs one product with 1/ℓ². They
    are exact, 0 for equal points and never negative, which differences of squares are not.

    Args:
        form: Of the kernel.
        hyper: For b neighborhoods or one for all.
        squares: (z_i − z_j)² per feature, ``(n, p, d)`` for p pairs.

    Returns:
        ``(n, G, p)``.
    """
    inverse = hyper.lengthscale.square().reciprocal()
    product: Tensor | None = None
    for number, block in enumerate(form.slices):
        part = squares[..., block] if len(form.blocks) > 1 else squares
        if len(inverse) == 1:
            r2 = (part.reshape(-1, part.shape[-1]) @ inverse[0, :, block].mT).view(*part.shape[:2], -1).mT
        else:
            r2 = inverse[..., block] @ part.mT
        value = _of_square(form, r2, hyper.alpha[..., number].unsqueeze(-1))
        product = value if product is None else product * value
    assert product is not None
    return product


def _of_square(form: Form, r2: Tensor, alpha: Tensor) -> Tensor:
    """Return κ for scaled squared distances r²."""
    if form.kernel == "rbf":
        return torch.exp(-0.5 * r2)
    if form.kernel == "rq":
        return torch.exp(-alpha * torch.log1p(r2 / (2.0 * alpha)))
    r = r2.sqrt() * math.sqrt(2.0 * form.nu)
    if form.nu == 0.5:
        return torch.exp(-r)
    polynomial = 1.0 + r if form.nu == 1.5 else 1.0 + r + r * r / 3.0
    return polynomial * torch.exp(-r)
