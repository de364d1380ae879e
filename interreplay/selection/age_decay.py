"""Selection with weights that decay with age down to a floor, in closed form or on top of another selector."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import check_number
from interreplay.selection.base import Selector, SlotStore, Uniform
from interreplay.selection.composite import Wrapper, reject_own_draw
from interreplay.selection.recency import AgeSelector


class AgeDecay(AgeSelector):
    """P(age i) ∝ the integral over [i, i + 1) of a weight that decreases from 1 at age 0 to a floor, and stays there.

    Ages are continuous here: a row of age i covers the ages from i to i + 1.

    Args:
        floor: Smallest weight w, above 0 and at most 1.

    Attributes:
        cut: Age c at which the weight reaches the floor.
    """

    cut: float

    def __init__(self, floor: float):
        check_number("floor", floor, 0, 1, above_low=True)
        self.floor = float(floor)

    @abstractmethod
    def falling(self, ages: np.ndarray) -> np.ndarray:
        """Return the integrals ``(n,)`` of the weight from 0 to ages ``(n,)`` that are at most `cut`."""

    @abstractmethod
    def inverse_falling(self, areas: np.ndarray) -> np.ndarray:
        """Return the ages ``(n,)`` whose `falling` is `areas` ``(n,)``."""

    def integral(self, ages: np.ndarray) -> np.ndarray:
        """Return the integrals ``(n,)`` of the weight from 0 to ages ``(n,)``."""
        return self.falling(np.minimum(ages, self.cut)) + self.floor * np.maximum(ages - self.cut, 0.0)

    def quantile(self, u: np.ndarray, count: int) -> np.ndarray:
        """Return the continuous ages ``(n,)`` below which a share u ``(n,)`` of the weight of `count` rows lies."""
        bounds = np.array([min(count, self.cut), count], dtype=np.float64)
        falling, total = self.integral(bounds)
        area = u * total
        early = self.inverse_falling(np.minimum(area, falling))
        return np.where(area < falling, early, bounds[0] + (area - falling) / self.floor)

    def ages(self, count: int, size: int, rng: np.random.Generator) -> np.ndarray:
        ages = self.quantile(rng.random(size), count).astype(np.int64)
        return np.minimum(ages, count - 1)

    def age_probabilities(self, count: int, ages: np.ndarray) -> np.ndarray:
        areas = self.integral(ages + 1.0) - self.integral(ages.astype(np.float64))
        return areas / self.integral(np.array([float(count)]))


class SampleWeightDecay(AgeDecay):
    """P(age) ∝ max(w, 1 − age/T), age 0 the newest row (Wu et al. 2026, arXiv:2604.01913).

    With far fewer than T stored rows, it is nearly uniform.

    Args:
        horizon: T in rows, above 0.
        floor: w, above 0 and at most 1; 1 is uniform.

    Raises:
        ValueError: If an argument is out of range.
    """

    def __init__(self, horizon: float = 80_000, floor: float = 0.1):
        super().__init__(floor)
        check_number("horizon", horizon, 0, above_low=True)
        self.horizon = float(horizon)
        self.cut = self.horizon * (1.0 - self.floor)

    def falling(self, ages: np.ndarray) -> np.ndarray:
        return ages - np.square(ages) / (2.0 * self.horizon)

    def inverse_falling(self, areas: np.ndarray) -> np.ndarray:
        return self.horizon * (1.0 - np.sqrt(np.maximum(1.0 - 2.0 * areas / self.horizon, 0.0)))


class ExponentialDecay(AgeDecay):
    """P(age) ∝ max(w, ρ^age).

    Args:
        rate: ρ, above 0 and at most 1.
        floor: w.
    """

    def __init__(self, rate: float, floor: float):
        super().__init__(floor)
        check_number("rate", rate, 0, 1, above_low=True)
        self._log = math.log(rate)
        self.cut = math.log(self.floor) / self._log if self._log else math.inf

    def at(self, ages: np.ndarray) -> np.ndarray:
        """Return the weights ``(n,)`` at ages ``(n,)``."""
        return np.maximum(self.floor, np.exp(self._log * ages))

    def falling(self, ages: np.ndarray) -> np.ndarray:
        return np.expm1(self._log * ages) / self._log if self._log else ages

    def inverse_falling(self, areas: np.ndarray) -> np.ndarray:
        return np.log1p(areas * self._log) / self._log if self._log else areas


class Faded(Wrapper):
    """Draws rows by another selector and keeps each with probability max(w, ρ^age), age 0 the newest row.

    The probability of a row, also as reported, is the inner selector's probability times max(w, ρ^age), up to a
    constant that normalized importance weights cancel. Blocks of rows are drawn until enough are kept. The kept rows
    of a block are permuted before it is cut, because stratified draws are ordered. `Uniform` is drawn by age in closed
    form instead. DR.Q (arXiv:2605.11711) fades LAP in this way, FoG (arXiv:2507.02712) uniform
    replay.

    Args:
        selector: The inner selector, which draws rows one by one; `Uniform()` by default.
        rate: ρ, above 0 and at most 1; 1 draws what the inner selector draws.
        floor: w, above 0 and at most 1; 1 draws what the inner selector draws.

    Raises:
        ValueError: If an argument is out of range, or the inner selector composes batches as a whole.
    """

    def __init__(self, selector: Selector | None = None, rate: float = 0.9999, floor: float = 0.1):
        inner = Uniform() if selector is None else selector
        reject_own_draw("selector", inner)
        super().__init__(inner)
        self.weight = ExponentialDecay(rate, floor)
        self.keeps_all = rate == 1.0 or floor == 1.0
        self._by_age = self.weight if type(inner) is Uniform else None
        self.independent_rows = inner.independent_rows
        self.supports_priorities = inner.supports_priorities
        self.eps = inner.eps
        self.knows_probabilities = inner.knows_probabilities and (self.keeps_all or self._by_age is not None)

    def select(self, stored: SlotStore, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        if self.keeps_all:
            return self.inner.select(stored, size, rng)
        if self._by_age is not None:
            return self._by_age.select(stored, size, rng)
        count = len(stored)
        kept_share = float(self.weight.integral(np.array([float(count)]))[0]) / count
        kept: list[tuple[Tensor, Tensor]] = []
        missing = size
        while missing > 0:
            slots, probabilities = self.inner.select(stored, math.ceil(missing / kept_share), rng)
            weights = self._compute_weights(slots, stored)
            accepted = rng.permutation(np.flatnonzero(rng.random(len(weights)) < weights))[:missing]
            which = torch.from_numpy(accepted)
            chosen_weights = torch.from_numpy(weights[accepted]).to(probabilities)
            kept.append((slots[which], probabilities[which] * chosen_weights))
            missing -= len(accepted)
        all_slots, all_probabilities = zip(*kept, strict=True)
        return torch.cat(all_slots), torch.cat(all_probabilities)

    def probabilities(self, slots: Tensor, stored: SlotStore) -> Tensor:
        if self.keeps_all:
            return self.inner.probabilities(slots, stored)
        if self._by_age is not None:
            return self._by_age.probabilities(slots, stored)
        probabilities = self.inner.probabilities(slots, stored)
        return probabilities * torch.from_numpy(self._compute_weights(slots, stored)).to(probabilities)

    def _compute_weights(self, slots: Tensor, stored: SlotStore) -> np.ndarray:
        """Return max(w, ρ^age) ``(n,)`` of the rows in `slots` ``(n,)``."""
        ages = stored.written - 1 - stored.write_numbers(slots)
        return self.weight.at(ages.numpy(force=True))

    def priorities(self, slots: Tensor) -> Tensor:
        return self.inner.priorities(slots)

    def set_priorities(self, slots: Tensor, raw: Tensor) -> None:
        self.inner.set_priorities(slots, raw)
