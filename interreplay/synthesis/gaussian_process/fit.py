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
    """How hyperparameters are fitted.

    Attributes:
        epochs: Steps at most.
        method: ``"adam"``, or ``"lbfgs"`` with a strong Wolfe line search, which settles where it stops improving. That
            may be at an extreme: the likelihood of a dozen points is flat. Give it priors.
        lr: Learning rate of Adam.
        priors: Gamma priors on the hyperparameters.

    Raises:
        ValueError: When one of them is out of range.
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


class Fitted(NamedTuple):
    """What a fit found.

    Attributes:
        hyper: b sets.
        failures: How many of them ended in numbers that are none, and are the best that was seen before.
        retried: Factorizations that needed jitter.
    """

    hyper: Hyperparameters
    failures: int
    retried: int


def fit(how: Fit, form: Form, start: Hyperparameters, x: Tensor, y: Tensor, spread: float = 1.0) -> Fitted:
    """Maximize the marginal likelihood of each of b neighborhoods on its own.

    In float64, whatever the precision of the points: line searches try extreme values.

    Args:
        how: Method and length.
        form: Of the processes.
        start: One set, where every fit starts.
        x: Scaled features ``(b, m, d)``.
        y: Scaled targets ``(b, m, T)``.
        spread: Standard deviation of a scaled feature, for the priors.
    """
    with (
        torch.enable_grad(),
        torch.random.fork_rng(devices=[]),  # GPyTorch draws first values, which are overwritten
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always", NumericalWarning)
        model = Model(form, x.double(), y.double(), how.priors, spread)
        model.write(start.map(Tensor.double))
        model.train()
        best, failed = _climb(how, model)
    found = model.read()
    good = found.finite() & (not failed)
    first = best.as_dict()
    chosen = {k: torch.where(good.view(-1, *[1] * (v.dim() - 1)), v, first[k]) for k, v in found.as_dict().items()}
    hyper = Hyperparameters(**chosen).map(lambda value: value.to(x.dtype))
    return Fitted(hyper, int((~good).sum()), len(caught))


def _climb(how: Fit, model: Model) -> tuple[Hyperparameters, bool]:
    """Take the steps; returns the best hyperparameters seen, and whether the fit broke off."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    best, lowest = model.read(), math.inf

    def loss() -> Tensor:
        nonlocal best, lowest
        optimizer.zero_grad()
        value = -model.log_posterior()
        if value.item() < lowest:
            best, lowest = model.read(), value.item()
        value.backward()
        return value

    try:
        if how.method == "lbfgs":
            optimizer: torch.optim.Optimizer = torch.optim.LBFGS(
                parameters, max_iter=how.epochs, line_search_fn="strong_wolfe"
            )
            optimizer.step(loss)  # type: ignore[arg-type]
            return best, False
        optimizer = torch.optim.Adam(parameters, lr=how.lr)
        for _ in range(how.epochs):
            loss()
            optimizer.step()
    except (NotPSDError, NanError):
        return best, True
    return best, False
