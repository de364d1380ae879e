"""Schedules of fits: when hyperparameters are fitted, and to which rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from interreplay.errors import check_number
from interreplay.storage.read_views import ReadView
from interreplay.storage.ring import Storage
from interreplay.synthesis.gaussian_process.fit import Fit, fit
from interreplay.synthesis.gaussian_process.neighborhoods import Neighborhoods, Preparation, stack_inputs, stack_targets
from interreplay.synthesis.gaussian_process.processes import Form, Hyperparameters
from interreplay.transitions import as_tensor

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
        state: dict[str, Any] = {name: getattr(self, name) for name in COUNTS}
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
