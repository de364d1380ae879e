"""Fitting hyperparameters by marginal likelihood."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import torch
from linear_operator.utils.errors import NanError, NotPSDError
from linear_operator.utils.warnings import NumericalWarning
from torch import Tensor

from interreplay.argument_checks import check_number
from interreplay.synthesis.gaussian_process.kernels import Form, Hyperparameters
from interreplay.synthesis.gaussian_process.model import Model

METHODS = ("adam", "lbfgs")


@dataclass(frozen=True)
class Fit:
    """Method and length of a fit.

    Attributes:
        epochs: Maximum number of steps.
        method: ``"adam"``, or ``"lbfgs"`` with a strong Wolfe line search, which stops when the likelihood stops
            improving. The likelihood of a dozen points is flat and its maximum may be extreme: use it with priors.
        lr: Learning rate of Adam.
        priors: Whether to use Gamma priors on the hyperparameters.

    Raises:
        ValueError: If an attribute is out of range.
    """

    epochs: int = 30
    method: str = "adam"
    lr: float = 0.1
    priors: bool = False

    def __post_init__(self) -> None:
        check_number("epochs", self.epochs, 1, whole=True)
        if self.method not in METHODS:
            raise ValueError(f"method is {self.method!r}; expected one of {', '.join(METHODS)}")
        check_number("lr", self.lr, 0, above_low=True)


class FitResult(NamedTuple):
    """The result of a fit.

    Attributes:
        hyper: b sets of hyperparameters.
        failures: Number of sets that became non-finite and were replaced by the best ones before.
        retried: Number of factorizations that required jitter.
    """

    hyper: Hyperparameters
    failures: int
    retried: int


def fit(how: Fit, form: Form, start: Hyperparameters, x: Tensor, y: Tensor, spread: float = 1.0) -> FitResult:
    """Maximize the marginal likelihood of each of b neighborhoods separately.

    Computes in float64 whatever the precision of the points, because line searches try extreme values.

    Args:
        how: Method and length.
        form: Kernel and mean.
        start: One set of initial hyperparameters for all fits.
        x: Scaled features ``(b, m, d)``.
        y: Scaled targets ``(b, m, T)``.
        spread: Standard deviation of a scaled feature, for the priors.
    """
    with (
        torch.enable_grad(),
        torch.random.fork_rng(devices=[]),  # GPyTorch draws initial values, which are overwritten
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always", NumericalWarning)
        model = Model(form, x.double(), y.double(), how.priors, spread)
        model.write(start.map(Tensor.double))
        model.train()
        best, failed = _maximize(how, model)
    found = model.read()
    good = found.finite() & (not failed)
    fallback = best.as_dict()
    chosen = {}
    for name, value in found.as_dict().items():
        finite = good.view(-1, *[1] * (value.dim() - 1))
        chosen[name] = torch.where(finite, value, fallback[name]).to(x.dtype)
    return FitResult(Hyperparameters(**chosen), int((~good).sum()), len(caught))


def _maximize(how: Fit, model: Model) -> tuple[Hyperparameters, bool]:
    """Take the steps; return the best hyperparameters and whether the fit failed."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    best = model.read()
    lowest = math.inf

    def loss() -> Tensor:
        nonlocal best, lowest
        optimizer.zero_grad()
        value = -model.log_posterior()
        if value.item() < lowest:
            best = model.read()
            lowest = value.item()
        value.backward()
        return value

    optimizer: torch.optim.Optimizer
    try:
        if how.method == "lbfgs":
            optimizer = torch.optim.LBFGS(parameters, max_iter=how.epochs, line_search_fn="strong_wolfe")
            optimizer.step(loss)
            return best, False
        optimizer = torch.optim.Adam(parameters, lr=how.lr)
        for _ in range(how.epochs):
            loss()
            optimizer.step()
    except (NotPSDError, NanError):
        return best, True
    return best, False
