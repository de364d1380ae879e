"""Schedules of fits: when hyperparameters are fitted, and to which rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from interreplay.argument_checks import check_number
from interreplay.storage.read_views import ReadView
from interreplay.synthesis.gaussian_process.fit import Fit, FitResult, fit
from interreplay.synthesis.gaussian_process.kernels import Form, Hyperparameters
from interreplay.synthesis.gaussian_process.neighborhoods import Neighborhoods, Preparation, inputs_of, targets_of
from interreplay.transitions import as_tensor

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage

COUNTS = ("batches", "fits", "failures", "retried")


class Schedule(ABC):
    """Provides hyperparameters for one batch after another.

    Args:
        how: Method and length of a fit.
        warm_start: Whether a fit starts at the result of the previous one instead of `Hyperparameters.initial`.

    Attributes:
        current: Result of the last fit, its mean if several neighborhoods were fitted; None before the first fit.
        shared: Whether all neighborhoods have the same hyperparameters; a fit then outdates earlier predictions.
        batches: Number of batches.
        fits: Number of fits.
        failures: Number of sets of hyperparameters whose fit failed or became non-finite.
        retried: Number of factorizations within fits that required jitter.
    """

    shared = True

    def __init__(self, how: Fit | None = None, warm_start: bool = True):
        self.how = how if how is not None else Fit()
        self.warm_start = warm_start
        self.current: Hyperparameters | None = None
        self.batches = 0
        self.fits = 0
        self.failures = 0
        self.retried = 0

    @abstractmethod
    def due(self) -> bool:
        """Return whether the next batch requires a fit."""

    @abstractmethod
    def fitted(self, form: Form, batch: Neighborhoods, start: Hyperparameters) -> FitResult:
        """Return a fit that starts at `start`, given the current batch."""

    def observe(self, storage: Storage, preparation: Preparation, rng: np.random.Generator, view: ReadView) -> None:
        """Read what is stored, before each batch."""
        return

    def __call__(self, form: Form, batch: Neighborhoods) -> Hyperparameters:
        """Return hyperparameters for a batch: one set per neighborhood, or one for all."""
        found = self.current
        if found is None or self.due():
            result = self.fitted(form, batch, self._start(form, batch))
            self.fits += 1
            self.failures += result.failures
            self.retried += result.retried
            self.current = result.hyper.average()
            found = self.current if self.shared else result.hyper
        self.batches += 1
        return found

    def applied(self, form: Form, batch: Neighborhoods) -> Hyperparameters:
        """Return hyperparameters for neighborhoods outside the run, without changing anything."""
        return self._current(form, batch)

    def _start(self, form: Form, batch: Neighborhoods) -> Hyperparameters:
        return self._current(form, batch) if self.warm_start else self._initial(form, batch)

    def _current(self, form: Form, batch: Neighborhoods) -> Hyperparameters:
        if self.current is None:
            return self._initial(form, batch)
        return self.current.map(lambda value: value.to(batch.x))

    def _initial(self, form: Form, batch: Neighborhoods) -> Hyperparameters:
        x = batch.x
        return Hyperparameters.initial(form, batch.y.shape[2], batch.spread, dtype=x.dtype, device=x.device)

    def skip(self) -> None:
        """Count a batch that required no prediction."""
        self.batches += 1

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume bit-exactly."""
        current = {} if self.current is None else self.current.as_dict()
        return {name: getattr(self, name) for name in COUNTS} | {"current": current}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in COUNTS:
            setattr(self, name, int(state[name]))
        current = {name: as_tensor(value).clone() for name, value in state["current"].items()}
        self.current = Hyperparameters(**current) if current else None


class Local(Schedule):
    """Fits each neighborhood of each batch separately; a warm start is the mean of the previous batch."""

    shared = False

    def __init__(self, how: Fit | None = None, warm_start: bool = True):
        super().__init__(how if how is not None else Fit(epochs=10), warm_start)

    def due(self) -> bool:
        return True

    def fitted(self, form: Form, batch: Neighborhoods, start: Hyperparameters) -> FitResult:
        return fit(self.how, form, start, batch.x, batch.y, batch.spread)

    def applied(self, form: Form, batch: Neighborhoods) -> Hyperparameters:
        return self.fitted(form, batch, self._start(form, batch)).hyper


class Global(Schedule):
    """Fit one set of hyperparameters for all neighborhoods, at regular intervals.

    Args:
        count: Number of neighborhoods or rows to fit to.
        every: Number of batches between two fits.
        how: Optimizer and number of steps of a fit.
        warm_start: Whether a fit starts at the result of the previous one.
    """

    smallest = 1

    def __init__(self, count: int, every: int = 1000, how: Fit | None = None, warm_start: bool = True):
        check_number("retrain_interval", every, 1, whole=True)
        check_number("train_size", count, self.smallest, whole=True)
        super().__init__(how, warm_start)
        self.count = count
        self.every = every

    def due(self) -> bool:
        return self.batches % self.every == 0


class MonteCarlo(Global):
    """The mean over the fits of the first `count` neighborhoods of the current batch."""

    def __init__(self, count: int = 32, every: int = 1000, how: Fit | None = None, warm_start: bool = True):
        super().__init__(count, every, how, warm_start)

    def fitted(self, form: Form, batch: Neighborhoods, start: Hyperparameters) -> FitResult:
        return fit(self.how, form, start, batch.x[: self.count], batch.y[: self.count], batch.spread)


class RandomRows(Global):
    """One fit to `count` rows, drawn uniformly from all stored rows and scaled by their own spread.

    The time of a fit is proportional to the cube of `count`.
    """

    smallest = 2

    def __init__(self, count: int = 256, every: int = 1000, how: Fit | None = None, warm_start: bool = True):
        super().__init__(count, every, how, warm_start)
        self.rows: Neighborhoods | None = None

    def observe(self, storage: Storage, preparation: Preparation, rng: np.random.Generator, view: ReadView) -> None:
        if not self.due():
            return
        slots = rng.choice(len(storage), min(self.count, len(storage)), replace=False)
        rows = view.read(storage, torch.from_numpy(slots).to(storage.device))
        self.rows = preparation(inputs_of(rows).unsqueeze(0), targets_of(rows).unsqueeze(0))

    def fitted(self, form: Form, batch: Neighborhoods, start: Hyperparameters) -> FitResult:
        rows = self.rows
        self.rows = None
        if rows is None:
            raise RuntimeError("no rows were observed; call observe before a batch that requires a fit")
        return fit(self.how, form, start, rows.x, rows.y, rows.spread)


SCHEDULES = ("monte_carlo", "rows", "local")


def schedule_named(name: str, how: Fit, count: int | None, every: int, warm_start: bool) -> Schedule:
    """Return a schedule by its name.

    Args:
        name: ``"monte_carlo"``, ``"rows"`` or ``"local"``.
        how: Method and length of a fit.
        count: Number of neighborhoods or rows to fit to; None for 32 or 256.
        every: Batches between two fits of shared hyperparameters.
        warm_start: Whether a fit starts at the result of the previous one.

    Raises:
        ValueError: If the name is unknown or a number is out of range.
    """
    if name not in SCHEDULES:
        raise ValueError(f"hyperparameters is {name!r}; expected one of {', '.join(SCHEDULES)}")
    if name == "local":
        return Local(how, warm_start)
    if name == "rows":
        return RandomRows(256 if count is None else count, every, how, warm_start)
    return MonteCarlo(32 if count is None else count, every, how, warm_start)
