"""Fits of hyperparameters by marginal likelihood, and their schedules: when, and to which rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Gamma

from interreplay.errors import check_number
from interreplay.storage.read_views import ReadView
from interreplay.storage.ring import Storage
from interreplay.storage.state_copies import attributes
from interreplay.synthesis.gaussian_process.neighborhoods import Neighborhoods, Preparation, stack_inputs, stack_targets
from interreplay.synthesis.gaussian_process.processes import LENGTH, Form, Hyperparameters, log_evidence
from interreplay.transitions import as_tensor

METHODS = ("adam", "lbfgs")
NOISE_FLOOR = 1e-3
"""Smallest σ_n², in units of the scaled targets."""
FLOORS = {"lengthscale": 0.0, "outputscale": 0.0, "noise": NOISE_FLOOR, "alpha": 0.0}
"""Bounds of positive hyperparameters, which are optimized as the inverse of `softplus`."""


@dataclass(frozen=True)
class Fit:
    """Method and length of a fit.

    Attributes:
        epochs: Maximum number of steps.
        method: ``"adam"``, or ``"lbfgs"`` with a strong Wolfe line search, which stops when the likelihood stops
            improving. The likelihood of a dozen points is flat and its maximum may be extreme: use it with priors.
        priors: Whether to use Gamma priors on the hyperparameters.
    """

    epochs: int = 30
    method: str = "adam"
    priors: bool = False

    def __post_init__(self) -> None:
        check_number("epochs", self.epochs, 1, whole=True)
        if self.method not in METHODS:
            raise ValueError(f"method is {self.method!r}; expected one of {', '.join(METHODS)}")


class FitResult(NamedTuple):
    """b sets of hyperparameters, and the number of failed sets, which were replaced by the best earlier values."""

    hyper: Hyperparameters
    failures: int


class Model(nn.Module):
    """Trainable hyperparameters of b neighborhoods.

    Without ARD there is one length scale per block of features. Hyperparameters that the form lacks are constant.

    Args:
        start: Initial hyperparameters; a single set is copied to all b.
        x: Features ``(b, m, d)``, float64.
        y: Targets ``(b, m, T)``, float64.
        priors: Whether to use Gamma priors, with means of 3√d standard deviations for length scales, 9 for σ_f² and .11
            for σ_n².
    """

    def __init__(
        self, form: Form, start: Hyperparameters, x: Tensor, y: Tensor, priors: bool = False, spread: float = 1.0
    ):
        super().__init__()
        self.form = form
        self.points = (x, y)
        self.start = start.map(lambda value: value.expand(len(x), *value.shape[1:]))
        given = self.start.as_dict()
        if not form.ard:
            given["lengthscale"] = given["lengthscale"][..., [block.start for block in form.slices]]
        if form.kernel != "rq":
            del given["alpha"]
        if form.mean == "zero":
            del given["constant"]
        self.raw = nn.ParameterDict()
        for name, value in given.items():
            if name in FLOORS:
                excess = value.clamp(min=FLOORS[name] * 1.001) - FLOORS[name]
                value = excess + torch.log(-torch.expm1(-excess))
            self.raw[name] = nn.Parameter(value.clone())
        self.priors: dict[str, Gamma] = {}
        if priors:
            numbers = {
                "lengthscale": (3.0, 3.0 / (LENGTH * spread * math.sqrt(form.features))),
                "outputscale": (2.0, 2.0 / LENGTH**2),
                "noise": (1.1, 10.0),
            }
            self.priors = {name: Gamma(*x.new_tensor(pair)) for name, pair in numbers.items()}

    def values(self) -> dict[str, Tensor]:
        """Return the trained hyperparameters by name, differentiable."""
        found = {}
        for name, value in self.raw.items():
            if name in FLOORS:
                value = nn.functional.softplus(value) + FLOORS[name]
            found[name] = value
        return found

    def hyper(self, values: dict[str, Tensor]) -> Hyperparameters:
        """Return all hyperparameters, given the trained ones."""
        lengths = values["lengthscale"]
        if not self.form.ard:
            lengths = lengths.repeat_interleave(torch.tensor(self.form.blocks), dim=-1)
        return Hyperparameters(**self.start.as_dict() | values | {"lengthscale": lengths})

    def log_posterior(self, values: dict[str, Tensor]) -> Tensor:
        """Return the log marginal likelihood and the log priors, once per kernel, of each neighborhood ``(b,)``."""
        total = log_evidence(self.form, self.hyper(values), *self.points)
        for name, prior in self.priors.items():
            total = total + prior.log_prob(values[name]).flatten(1).sum(dim=1)
        return total


def fit(how: Fit, form: Form, start: Hyperparameters, x: Tensor, y: Tensor, spread: float = 1.0) -> FitResult:
    """Maximize the marginal likelihood of each of b neighborhoods separately, all from the one set `start`.

    Features x ``(b, m, d)`` and targets y ``(b, m, T)`` are scaled; `spread` is the standard deviation of a feature,
    for the priors. Computes in float64 whatever the precision of the points, because line searches try extreme values.
    """
    model = Model(form, start.map(Tensor.double), x.double(), y=y.double(), priors=how.priors, spread=spread)
    best = model.start
    highest = torch.full((len(x),), -math.inf, dtype=torch.float64)
    optimizer: Any = torch.optim.Adam(model.parameters(), lr=0.1)
    steps = how.epochs
    if how.method == "lbfgs":
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=how.epochs, line_search_fn="strong_wolfe")
        steps = 1

    @torch.enable_grad()
    def loss() -> Tensor:
        nonlocal best, highest
        optimizer.zero_grad()
        values = model.values()
        found = model.log_posterior(values)
        better = found.detach() > highest
        best = model.hyper(values).map(Tensor.detach).where(better, best)
        highest = torch.where(better, found.detach(), highest)
        total = -found.sum()
        total.backward()
        return total

    for _ in range(steps):
        optimizer.step(loss)
    last = model.hyper(model.values()).map(Tensor.detach)
    good = last.finite() & highest.isfinite()
    return FitResult(last.where(good, best).map(lambda value: value.to(x.dtype)), int((~good).sum()))


SIZES = {"monte_carlo": 32, "rows": 256, "local": 1}
"""Schedules, and the default number of neighborhoods or rows of a fit."""
COUNTS = ("batches", "fits", "failures")


class Schedule:
    """Provides the hyperparameters of each batch.

    * ``"monte_carlo"``: one set for all neighborhoods, the mean over fits of the first `size` ones of the batch;
    * ``"rows"``: one set, fitted to `size` rows that are drawn uniformly and scaled by their own spread; the time of a
      fit is proportional to the cube of `size`;
    * ``"local"``: a fit for each neighborhood of each batch; a warm start is the mean of the previous batch.

    Args:
        kind: One of the names above.
        how: Method and length of a fit; by default 30 epochs, 10 for local fits.
        size: Number of neighborhoods or rows to fit to; None for 32 or 256.
        every: Batches between two fits of shared hyperparameters.
        warm_start: Whether a fit starts at the result of the previous one instead of `Hyperparameters.make_initial`.

    Attributes:
        current: Result of the last fit, its mean if several neighborhoods were fitted; None before the first fit.
        batches: Number of batches.
        fits: Number of fits.
        failures: Number of sets of hyperparameters that became non-finite in a fit.
    """

    def __init__(
        self,
        kind: str = "monte_carlo",
        how: Fit | None = None,
        size: int | None = None,
        every: int = 1000,
        warm_start: bool = True,
    ):
        if kind not in SIZES:
            raise ValueError(f"hyperparameters is {kind!r}; expected one of {', '.join(SIZES)}")
        check_number("retrain_interval", every, 1, whole=True)
        self.kind = kind
        self.size = SIZES[kind] if size is None else size
        check_number("train_size", self.size, 1 + (kind == "rows"), whole=True)
        self.every = every
        self.how = how or Fit(epochs=10 if kind == "local" else 30)
        self.warm_start = warm_start
        self.current: Hyperparameters | None = None
        self.batches = 0
        self.fits = 0
        self.failures = 0
        self._rows: Neighborhoods | None = None

    def due(self) -> bool:
        """Return whether the next batch requires a fit."""
        return self.kind == "local" or self.current is None or self.batches % self.every == 0

    def observe(self, storage: Storage, preparation: Preparation, rng: np.random.Generator, view: ReadView) -> None:
        """Draw the rows of the next fit if it is due and uses rows; called before each batch."""
        if self.kind == "rows" and self.due():
            slots = rng.choice(len(storage), min(self.size, len(storage)), replace=False)
            rows = view.read(storage, torch.from_numpy(slots))
            self._rows = preparation(stack_inputs(rows).unsqueeze(0), stack_targets(rows).unsqueeze(0))

    def __call__(self, form: Form, batch: Neighborhoods) -> Hyperparameters:
        """Return hyperparameters for a batch: one set per neighborhood, or one for all."""
        found = self.current
        if found is None or self.due():
            found = self._fit(form, batch)
        self.batches += 1
        return found

    def _fit(self, form: Form, batch: Neighborhoods) -> Hyperparameters:
        start = self._make_initial(form, batch)
        if self.warm_start:
            start = self.get_current(form, batch)
        x = batch.x
        y = batch.y
        if self.kind == "monte_carlo":
            x = x[: self.size]
            y = y[: self.size]
        elif self.kind == "rows":
            assert self._rows is not None, "observe precedes each batch"
            x = self._rows.x
            y = self._rows.y
            self._rows = None
        result = fit(self.how, form, start, x, y, batch.spread)
        self.fits += 1
        self.failures += result.failures
        self.current = result.hyper.average()
        if self.kind == "local":
            return result.hyper
        return self.current

    def get_current(self, form: Form, batch: Neighborhoods) -> Hyperparameters:
        """Return the current hyperparameters in the dtype of a batch, without changing anything."""
        if self.current is None:
            return self._make_initial(form, batch)
        return self.current.map(lambda value: value.to(batch.x))

    def _make_initial(self, form: Form, batch: Neighborhoods) -> Hyperparameters:
        return Hyperparameters.make_initial(form, batch.y.shape[2], batch.spread, batch.x.dtype)

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = attributes(self, COUNTS)
        if self.current is not None:
            state["current"] = self.current.as_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in COUNTS:
            setattr(self, name, int(state[name]))
        self.current = None
        if "current" in state:
            tensors = {name: as_tensor(value).clone() for name, value in state["current"].items()}
            self.current = Hyperparameters(**tensors)
