"""Many small Gaussian processes at once: kernels, hyperparameters, marginal likelihood and exact posterior.

Rasmussen & Williams 2006, Gaussian Processes for Machine Learning, algorithm 2.1 and chapter 4. All matrices are
factorized in one batch. With one kernel for all targets there is one factorization per neighborhood.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

KERNELS = ("rbf", "matern", "rq")
MEANS = ("zero", "constant", "linear")
NU = (0.5, 1.5, 2.5)
LENGTH = 3.0
"""Initial length scale in multiples of √d standard deviations of a feature."""
JITTERS = (1e-6, 1e-5, 1e-4)
"""Values to add, one after another, to the diagonal of a singular matrix, as shares of its mean diagonal."""


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
        """Return the form for d features; the last d_a are actions."""
        if self.composite and 0 < actions < features:
            return replace(self, blocks=(features - actions, actions))
        return replace(self, blocks=(features,))

    @property
    def features(self) -> int:
        """Number of features d."""
        return sum(self.blocks)

    @property
    def slices(self) -> list[slice]:
        """Positions of the blocks of features."""
        ends = np.cumsum(self.blocks).tolist()
        return list(map(slice, [0, *ends], ends))

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
        if self.slope is None:
            del named["slope"]
        return named

    def where(self, chosen: Tensor, other: Hyperparameters) -> Hyperparameters:
        """Return these sets where `chosen` ``(b,)`` is true, those of `other` elsewhere."""
        found = {}
        for name, value in self.as_dict().items():
            mask = chosen.view(-1, *[1] * (value.dim() - 1))
            found[name] = torch.where(mask, value, getattr(other, name))
        return Hyperparameters(**found)

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
        flat = torch.cat(list(self.map(lambda value: value.flatten(1)).as_dict().values()), dim=1)
        return flat.isfinite().all(dim=1)

    @classmethod
    def make_initial(cls, form: Form, targets: int, spread: float, dtype: torch.dtype) -> Hyperparameters:
        """Return the initial values of fits: nearly linear functions, as dynamics are within a neighborhood.

        Distances between points in d features grow as √d. With a constant length scale all points would be
        uncorrelated, and every prediction would be the mean (Hvarfner et al. 2024, arXiv:2402.02229). It is therefore
        3√d standard deviations. With σ_f² = 9, targets vary by about 1 within a neighborhood.
        """
        groups = form.groups(targets)
        d = form.features
        one = torch.ones((), dtype=dtype)
        slope = None
        if form.mean == "linear":
            slope = 0.0 * one.repeat(1, targets, d)
        return cls(
            lengthscale=LENGTH * spread * math.sqrt(d) * one.repeat(1, groups, d),
            outputscale=LENGTH**2 * one.repeat(1, groups),
            noise=0.02 * one.repeat(1, groups),
            alpha=one.repeat(1, groups, len(form.blocks)),
            constant=0.0 * one.repeat(1, targets),
            slope=slope,
        )


def covariance(form: Form, hyper: Hyperparameters, squares: Tensor) -> Tensor:
    """Return κ ``(n, G, p)`` without its scale σ_f² for squared differences (z_i − z_j)² ``(n, p, d)`` of p pairs.

    All kernels share the squared differences; each costs one product with 1/ℓ². In contrast to differences of squares,
    they are exact: 0 for equal points and never negative.
    """
    inverse = hyper.lengthscale.square().reciprocal()
    values = []
    for number, block in enumerate(form.slices):
        part = squares[..., block]
        if len(inverse) == 1:
            r2 = (part.reshape(-1, part.shape[-1]) @ inverse[0, :, block].mT).view(*part.shape[:2], inverse.shape[1]).mT
        else:
            r2 = inverse[..., block] @ part.mT
        values.append(_kernel(form, r2, hyper.alpha[..., number].unsqueeze(-1)))
    return math.prod(values[1:], start=values[0])


def _kernel(form: Form, r2: Tensor, alpha: Tensor) -> Tensor:
    """Return κ for scaled squared distances r²."""
    if form.kernel == "rbf":
        return torch.exp(-0.5 * r2)
    if form.kernel == "rq":
        return torch.exp(-alpha * torch.log1p(r2 / (2.0 * alpha)))
    r = r2.clamp(min=1e-30).sqrt() * math.sqrt(2.0 * form.nu)  # the root of 0 has no finite derivative
    decay = torch.exp(-r)
    if form.nu == 0.5:
        return decay
    if form.nu == 1.5:
        return (1.0 + r) * decay
    return (1.0 + r + r * r / 3.0) * decay


def prior_mean(hyper: Hyperparameters, x: Tensor) -> Tensor:
    """Return the prior mean of points ``(n, m, d)``, ``(n, m, T)`` or broadcasting to it."""
    constant = hyper.constant.unsqueeze(1)
    if hyper.slope is None:
        return constant
    return constant + x @ hyper.slope.mT


def log_evidence(form: Form, hyper: Hyperparameters, x: Tensor, y: Tensor) -> Tensor:
    """Return the sum of the log marginal likelihoods of the T processes of each neighborhood ``(n,)``, differentiable.

    Features x are ``(n, m, d)``, targets y ``(n, m, T)``; each neighborhood has its own hyperparameters.
    """
    m, targets = y.shape[1:]
    rows, columns = _pairs(m)
    among = (x[:, rows] - x[:, columns]).square()
    scale = hyper.outputscale.unsqueeze(-1)
    matrix = _with_diagonal(covariance(form, hyper, among) * scale, scale + hyper.noise.unsqueeze(-1))
    factor, info = torch.linalg.cholesky_ex(matrix + matrix.tril(-1).mT)  # autograd needs both triangles
    residual = _group_by_kernel(y - prior_mean(hyper, x), matrix.shape[1])
    whitened = torch.linalg.solve_triangular(factor, residual, upper=False)
    squares = whitened.square().sum(dim=(1, 2, 3))
    log_determinants = 2.0 * factor.diagonal(dim1=2, dim2=3).log().sum(dim=(1, 2)) * residual.shape[3]
    evidence = -0.5 * (squares + log_determinants + m * targets * math.log(2.0 * math.pi))
    return torch.where((info == 0).all(dim=1), evidence, -math.inf)


class Posterior(NamedTuple):
    """Predictions of T targets at q points for each of n neighborhoods.

    Attributes:
        mean: ``(n, q, T)``.
        variance: Variance of the function without the noise ``(n, q, T)``, at least 0.
        noise: σ_n² of each target ``(n or 1, 1, T or 1)``.
        failed: Neighborhoods ``(n,)`` with a matrix that could not be factorized; their predictions are meaningless.
        retried: Number of matrices that required jitter.
    """

    mean: Tensor
    variance: Tensor
    noise: Tensor
    failed: Tensor
    retried: int


def posterior(form: Form, hyper: Hyperparameters, x: Tensor, y: Tensor, queries: Tensor) -> Posterior:
    """Condition on m points x ``(n, m, d)`` with targets y ``(n, m, T)`` and predict at `queries` ``(n, q, d)``.

    There is one set of hyperparameters per neighborhood, or one for all.
    """
    n, m, d = x.shape
    q = queries.shape[1]
    targets = y.shape[2]
    rows, columns = _pairs(m)
    among = (x.index_select(1, rows) - x.index_select(1, columns)).square_()
    across = (x.unsqueeze(2) - queries.unsqueeze(1)).square_().view(n, m * q, d)
    scale = hyper.outputscale.unsqueeze(-1)
    kernel = covariance(form, hyper, torch.cat([among, across], dim=1)) * scale
    groups = kernel.shape[1]
    matrix = _with_diagonal(kernel[..., : len(rows)], scale + hyper.noise.unsqueeze(-1))
    factor, failed, retried = factorize(matrix)
    residual = _group_by_kernel(y - prior_mean(hyper, x), groups)
    cross = kernel[..., len(rows) :].reshape(n, groups, m, q)
    solved = torch.linalg.solve_triangular(factor, torch.cat([cross, residual], dim=3), upper=False)
    to_query = solved[..., :q]
    to_data = solved[..., q:]
    mean = (to_query.mT @ to_data).transpose(1, 2).reshape(n, q, targets) + prior_mean(hyper, queries)
    variance = (scale - to_query.square().sum(2)).clamp_(min=0.0).mT.expand(n, q, -1)
    return Posterior(
        mean=mean,
        variance=variance.expand(n, q, targets),
        noise=hyper.noise.unsqueeze(1),
        failed=failed,
        retried=retried,
    )


def _with_diagonal(pairs: Tensor, diagonal: Tensor) -> Tensor:
    """Return lower triangles ``(n, G, m, m)`` with `pairs` ``(n, G, p)`` below the `diagonal` ``(n or 1, G, 1)``."""
    n, groups, count = pairs.shape
    m = (1 + math.isqrt(1 + 8 * count)) // 2
    rows, columns = _pairs(m)
    flat = pairs.new_zeros(n, groups, m * m).index_copy(2, rows * m + columns, pairs)
    matrix = flat.view(n, groups, m, m)
    matrix.diagonal(dim1=2, dim2=3).copy_(diagonal.expand(n, groups, m))
    return matrix


def _group_by_kernel(values: Tensor, groups: int) -> Tensor:
    """Return values of targets ``(n, m, T)`` grouped by the kernels of the targets ``(n, G, m, T / G)``."""
    return values.unflatten(2, (groups, -1)).transpose(1, 2)


def factorize(matrices: Tensor) -> tuple[Tensor, Tensor, int]:
    """Return Cholesky factors of matrices ``(n, G, m, m)``; only their lower triangles are read.

    Returns:
        The factors, which of the n failed despite jitter ``(n,)``, and the number of matrices that required jitter. The
        factor of a failed matrix is the identity.
    """
    factor, info = torch.linalg.cholesky_ex(matrices)
    bad = info != 0
    retried = int(bad.sum())
    if not retried:
        return factor, bad.any(1), 0
    factor = torch.where(bad[..., None, None], torch.eye(matrices.shape[-1]).to(factor), factor)
    for jitter in JITTERS:
        again = matrices[bad]
        diagonal = again.diagonal(dim1=1, dim2=2)
        diagonal += jitter * diagonal.mean(1, keepdim=True)
        found, info = torch.linalg.cholesky_ex(again)
        places = bad.nonzero()[info == 0]
        factor[places[:, 0], places[:, 1]] = found[info == 0]
        bad[places[:, 0], places[:, 1]] = False
        if not bad.any():
            break
    return factor, bad.any(1), retried


@lru_cache(maxsize=16)
def _pairs(m: int) -> tuple[Tensor, Tensor]:
    """Return rows and columns of the elements below the diagonal of an m×m matrix."""
    index = torch.tril_indices(m, m, offset=-1)
    return index[0], index[1]
