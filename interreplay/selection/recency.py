"""Selection by age: recent rows are drawn more often. Ages are drawn in closed form, without a tree."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor

from interreplay.errors import check_number
from interreplay.part import AnnealedPart
from interreplay.selection.base import Selector, SlotStore


class AgeSelector(Selector, ABC):
    """Draws rows independently by age: 0 is the newest of N stored rows and N − 1 the oldest."""

    independent_rows = True
    knows_probabilities = True
    by_write_order = True

    @abstractmethod
    def ages(self, count: int, size: int, rng: np.random.Generator) -> np.ndarray:
        """Draw ages ``(size,)`` int64 from 0 to `count` − 1."""

    @abstractmethod
    def age_probabilities(self, count: int, ages: np.ndarray) -> np.ndarray:
        """Return the probabilities ``(n,)``, float64, of ages ``(n,)`` among `count` rows."""

    def select(self, stored: SlotStore, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        count = len(stored)
        ages = self.ages(count, size, rng)
        probabilities = self.age_probabilities(count, ages).astype(np.float32)
        slots = (stored.written - 1 - ages) % stored.capacity
        return torch.from_numpy(slots), torch.from_numpy(probabilities)

    def probabilities(self, slots: Tensor, stored: SlotStore) -> Tensor:
        ages = (stored.written - 1 - stored.write_numbers(slots)).numpy()
        probabilities = self.age_probabilities(len(stored), ages).astype(np.float32)
        return torch.from_numpy(probabilities)


class EmphasizedRecent(AnnealedPart, AgeSelector):
    """Draws each row from the newest c of N stored rows, c = max(N·η^(1000u), c_min) with u ~ U(0, 1).

    Wang & Ross 2019, arXiv:1906.04009. There, update k of the K updates after an episode draws from the newest
    N·η^(1000k/K) rows. Over many updates, the distribution is the same, but here rows are independent. In the authors'
    code (github.com/AutumnWu/Streamlined-Off-Policy-Learning), N is the capacity: until the buffer is full, older rows
    are drawn more often than here.

    Args:
        eta: η, above 0 and at most 1; 1 is uniform.
        c_min: Minimum number of rows to draw from.
        final_eta: η at the end of the run, to which `anneal` moves linearly, 1 in the paper; None keeps `eta`.

    Raises:
        ValueError: If an argument is out of range.
    """

    def __init__(self, eta: float = 0.996, c_min: int = 5_000, final_eta: float | None = None):
        check_number("eta", eta, 0, 1, above_low=True)
        if final_eta is not None:
            check_number("final_eta", final_eta, 0, 1, above_low=True)
        check_number("c_min", c_min, 1, whole=True)
        self.eta = float(eta)
        self.c_min = int(c_min)
        self.final_eta = self.eta if final_eta is None else float(final_eta)

    @property
    def current_eta(self) -> float:
        """Current η, which determines from how many of the newest rows a batch is drawn."""
        return self.eta + (self.final_eta - self.eta) * self.progress

    def ages(self, count: int, size: int, rng: np.random.Generator) -> np.ndarray:
        u, v = rng.random((2, size))
        newest = np.exp(u * (1_000.0 * math.log(self.current_eta)))
        newest *= count
        np.maximum(newest, min(self.c_min, count), out=newest)
        return np.minimum((v * newest).astype(np.int64), count - 1)

    def age_probabilities(self, count: int, ages: np.ndarray) -> np.ndarray:
        """Return P(i) = ∫ min(max(c − i, 0), 1)/c du in closed form: with du = −dc/(a·c) where c > c_min."""
        least = min(self.c_min, count)
        a = -1_000.0 * math.log(self.current_eta)
        if least == count or not a:
            return np.full(len(ages), 1.0 / count)
        falling = min(1.0, math.log(count / least) / a)
        low = count * math.exp(-a * falling)
        first = np.clip(ages, low, count)
        last = np.clip(ages + 1, low, count)
        partly = np.log1p((last - first) / first) + ages * (1.0 / last - 1.0 / first)
        return (1.0 - falling) * (ages < least) / least + (partly + 1.0 / last - 1.0 / count) / a


class TruncatedGeometric(AgeSelector):
    """P(age i) ∝ (1 − p)^i for 0 ≤ i < N, with p chosen such that the mean age is a given share of the oldest age.

    Korniak et al. 2026, arXiv:2605.10236. Ages are drawn by the closed-form inverse of the distribution function.

    Args:
        mean_age: Mean age divided by N − 1, above 0 and at most .5, which is uniform.

    Raises:
        ValueError: If it is out of range.
    """

    def __init__(self, mean_age: float = 0.3):
        check_number("mean_age", mean_age, 0, 0.5, above_low=True)
        self.mean_age = float(mean_age)

    def ages(self, count: int, size: int, rng: np.random.Generator) -> np.ndarray:
        rate = decay_rate(count, self.mean_age)
        u = rng.random(size)
        ages = np.log1p(u * math.expm1(-rate * count)) / -rate if rate else u * count
        return np.minimum(ages.astype(np.int64), count - 1)

    def age_probabilities(self, count: int, ages: np.ndarray) -> np.ndarray:
        rate = decay_rate(count, self.mean_age)
        if not rate:
            return np.full(len(ages), 1.0 / count)
        return np.exp(-rate * ages) * (math.expm1(-rate) / math.expm1(-rate * count))


@functools.lru_cache(maxsize=64)
def decay_rate(count: int, mean_age: float) -> float:
    """Return −log(1 − p) of a geometric distribution truncated at `count` with the mean `mean_age`·(count − 1)."""
    mean = mean_age * (count - 1)
    if mean_age == 0.5 or count == 1:
        return 0.0
    from scipy.optimize import brentq  # takes half a second to import

    def excess(scaled: float) -> float:
        if not scaled:
            return (count - 1) / 2.0 - mean
        cut = count / math.expm1(scaled) if scaled < 700.0 else 0.0
        return 1.0 / math.expm1(scaled / count) - cut - mean

    # Without truncation, half the upper bound has this mean; truncation makes the rate smaller.
    return float(brentq(excess, 0.0, 2.0 * count * math.log1p(1.0 / mean))) / count


class Online(Selector):
    """The newest n rows, newest first: learning without replay, as a baseline.

    If fewer rows are stored, they repeat in the same order until the batch is full. Nothing is random; the probability
    of a row is its share of the batch.
    """

    by_write_order = True

    def select(self, stored: SlotStore, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        count = len(stored)
        age = torch.arange(size) % count
        slots = torch.remainder(stored.written - 1 - age, stored.capacity)
        times = size // count + (age < size % count)
        return slots, times.float() / size
