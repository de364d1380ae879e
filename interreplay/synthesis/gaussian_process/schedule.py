"""When hyperparameters are fitted, and on what: each neighborhood, a few of them, or random rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from interreplay.argument_checks import check_number
from interreplay.storage.read_views import ReadView
from interreplay.synthesis.gaussian_process.fit import Fit, Fitted, fit
from interreplay.synthesis.gaussian_process.kernels import Form, Hyperparameters
from interreplay.synthesis.gaussian_process.neighborhoods import Neighborhoods, Preparation, inputs_of, targets_of
from interreplay.transitions import as_tensor

if TYPE_CHECKING:
    from interreplay.storage.ring import Storage

COUNTS = ("batches", "fits", "failures", "retried")


class Schedule(ABC):
    """Hyperparameters for one batch after the other.

    Args:
        how: Method and length of a fit.
        warm_start: A fit starts at what the last one found; at `Hyperparameters.initial` without.

    Attributes:
        current: What the last fit found, its mean over neighborhoods where there were several; None before.
        shared: Whether all neighborhoods have the same; a fit then outdates what was predicted before.
        batches: Batches seen.
        fits: Fits begun.
        failures: Sets of hyperparameters whose fit broke off or ended in numbers that are none.
        retried: Factorizations within fits that needed jitter.
    """

    shared = True

    def __init__(self, how: Fit | None = None, warm_start: bool = True):
        self.how, self.warm_start = how if how is not None else Fit(), warm_start
        self.current: Hyperparameters | None = None
        self.batches = self.fits = self.failures = self.retried = 0

    @abstractmethod
    def due(self) -> bool:
        """Return whether the next batch brings a fit."""

    @abstractmethod
    def fitted(self, form: Form, batch: Neighborhoods, start: Hyperparameters) -> Fitted:
        """Return a fit, begun at `start`, with this batch at hand."""

    def observe(self, storage: Storage, preparation: Preparation, rng: np.random.Generator, view: ReadView) -> None:
        """Look at what is stored, before each batch."""
        return

    def __call__(self, form: Form, batch: Neighborhoods) -> Hyperparameters:
        """Return hyperparameters for a batch: one set per neighborhood, or one for all."""
        found = self.current
        if found is None or self.due():
            found = self._fit(form, batch)
        self.batches += 1
        return found

    def applied(self, form: Form, batch: Neighborhoods) -> Hyperparameters:
        """Return hyperparameters for neighborhoods beside the run: nothing changes by asking."""
        return self._initial(form, batch) if self.current is None else self.current.map(lambda value: value.to(batch.x))

    def _start(self, form: Form, batch: Neighborhoods) -> Hyperparameters:
        """Return where a fit starts."""
        return Schedule.applied(self, form, batch) if self.warm_start else self._initial(form, batch)

    def _initial(self, form: Form, batch: Neighborhoods) -> Hyperparameters:
        x = batch.x
        return Hyperparameters.initial(form, batch.y.shape[2], batch.spread, x.dtype, x.device)

    def passed(self) -> None:
        """Take note of a batch for which nothing had to be predicted."""
        self.batches += 1

    def _fit(self, form: Form, batch: Neighborhoods) -> Hyperparameters:
        found = self.fitted(form, batch, self._start(form, batch))
        self.fits += 1
        self.failures += found.failures
        self.retried += found.retried
        self.current = found.hyper.average()
        return self.used(found.hyper)

    def used(self, found: Hyperparameters) -> Hyperparameters:
        """Return what the batch that brought the fit is made with."""
        assert self.current is not None
        return self.current

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on."""
        return {name: getattr(self, name) for name in COUNTS} | {
            "current": {} if self.current is None else self.current.as_dict()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        for name in COUNTS:
            setattr(self, name, int(state[name]))
        current = {name: as_tensor(value).clone() for name, value in state["current"].items()}
        self.current = Hyperparameters(**current) if current else None


class Local(Schedule):
    """A fit of each neighborhood of each batch on its own. A warm start is the mean of the batch before."""

    shared = False

    def __init__(self, how: Fit | None = None, warm_start: bool = True):
        super().__init__(how if how is not None else Fit(epochs=10), warm_start)

    def due(self) -> bool:
        return True

    def fitted(self, form: Form, batch: Neighborhoods, start: Hyperparameters) -> Fitted:
        return fit(self.how, form, start, batch.x, batch.y, batch.spread)

    def used(self, found: Hyperparameters) -> Hyperparameters:
        return found

    def applied(self, form: Form, batch: Neighborhoods) -> Hyperparameters:
        return self.fitted(form, batch, self._start(form, batch)).hyper


class Global(Schedule):
    """One set for all neighborhoods, fitted again every so many batches.

    Args:
        every: Batches between two fits, the batches of updates.
        how: Method and length of a fit.
        warm_start: A fit starts at what the last one found.
    """

    def __init__(self, every: int = 1000, how: Fit | None = None, warm_start: bool = True):
        check_number("retrain_interval", every, 1, whole=True)
        super().__init__(how, warm_start)
        self.every = every

    def due(self) -> bool:
        return self.batches % self.every == 0


class MonteCarlo(Global):
    """The mean over the fits of m neighborhoods of the batch at hand, as the selector drew them.

    Args:
        count: m.
        every: Batches between two fits.
        how: Method and length of a fit.
        warm_start: A fit starts at what the last one found.
    """

    def __init__(self, count: int = 32, every: int = 1000, how: Fit | None = None, warm_start: bool = True):
        check_number("train_size", count, 1, whole=True)
        super().__init__(every, how, warm_start)
        self.count = count

    def fitted(self, form: Form, batch: Neighborhoods, start: Hyperparameters) -> Fitted:
        return fit(self.how, form, start, batch.x[: self.count], batch.y[: self.count], batch.spread)


class RandomRows(Global):
    """One fit on rows drawn uniformly from all that are stored, scaled by their own spread.

    Args:
        count: Rows; a fit takes time in proportion to their cube.
        every: Batches between two fits.
        how: Method and length of a fit.
        warm_start: A fit starts at what the last one found.
    """

    def __init__(self, count: int = 256, every: int = 1000, how: Fit | None = None, warm_start: bool = True):
        check_number("train_size", count, 2, whole=True)
        super().__init__(every, how, warm_start)
        self.count = count
        self.rows: Neighborhoods | None = None

    def observe(self, storage: Storage, preparation: Preparation, rng: np.random.Generator, view: ReadView) -> None:
        if not self.due():
            return
        slots = rng.choice(len(storage), min(self.count, len(storage)), replace=False)
        rows = view.read(storage, torch.from_numpy(slots).to(storage.device))
        self.rows = preparation(inputs_of(rows).unsqueeze(0), targets_of(rows).unsqueeze(0))

    def fitted(self, form: Form, batch: Neighborhoods, start: Hyperparameters) -> Fitted:
        rows, self.rows = self.rows, None
        if rows is None:
            raise RuntimeError("no rows were observed; call observe before a batch that brings a fit")
        return fit(self.how, form, start, rows.x, rows.y, rows.spread)


SCHEDULES = ("monte_carlo", "rows", "local")


def schedule_named(name: str, how: Fit, count: int | None, every: int, warm_start: bool) -> Schedule:
    """Return a schedule by its name.

    Args:
        name: ``"monte_carlo"``, ``"rows"`` or ``"local"``.
        how: Method and length of a fit.
        count: Neighborhoods or rows of a fit; 32 or 256 for None.
        every: Batches between two fits of shared hyperparameters.
        warm_start: A fit starts at what the last one found.

    Raises:
        ValueError: When the name is none of those, or a number is out of range.
    """
    if name not in SCHEDULES:
        raise ValueError(f"hyperparameters is {name!r}; expected one of {', '.join(SCHEDULES)}")
    if name == "local":
        return Local(how, warm_start)
    if name == "rows":
        return RandomRows(256 if count is None else count, every, how, warm_start)
    return MonteCarlo(32 if count is None else count, every, how, warm_start)


def means(hyper: Hyperparameters) -> dict[str, float]:
    """Return means of the hyperparameters by name, for diagnostics."""
    return {name: float(value.mean()) for name, value in hyper.as_dict().items()}
