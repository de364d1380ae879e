"""Distributions of the mixing coefficient λ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from interreplay.errors import PartError, check_number
from interreplay.part import check_tensor

Coefficient = Callable[[int, np.random.Generator], np.ndarray]
"""A distribution of λ: maps a number of rows and a generator to one λ between 0 and 1 per row ``(size,)``."""


class Beta:
    """λ ~ Beta(α, α), as in mixup (Zhang et al. 2018, arXiv:1710.09412).

    Args:
        alpha: α > 0. λ is close to 0 or 1 for small α, uniform for 1, and close to ½ for large α.
    """

    def __init__(self, alpha: float = 0.75):
        check_number("alpha", alpha, 0, above_low=True)
        self.alpha = float(alpha)

    def __call__(self, size: int, rng: np.random.Generator) -> np.ndarray:
        return rng.beta(self.alpha, self.alpha, size)


class Uniform:
    """λ ~ U(0, 1), as in SMOTE and LCER."""

    def __call__(self, size: int, rng: np.random.Generator) -> np.ndarray:
        return rng.random(size)


def check_coefficient(given: Any) -> Coefficient:
    """Return a distribution of λ.

    Raises:
        ValueError: `given` is not a function.
    """
    if isinstance(given, type) or not callable(given):
        raise ValueError(f"coefficient is {given!r}; expected a function (size, rng) -> λ (size,), such as Beta(0.75)")
    return given


def draw_coefficients(coefficient: Coefficient, size: int, rng: np.random.Generator) -> np.ndarray:
    """Return λ ``(size,)``.

    Raises:
        PartError: A user's function returned anything other than one number from 0 to 1 per row.
    """
    drawn = coefficient(size, rng)
    if isinstance(coefficient, Beta | Uniform):
        return drawn
    name = getattr(coefficient, "__qualname__", type(coefficient).__name__)
    try:
        numbers = np.array(drawn, np.float64)
    except (TypeError, ValueError, RuntimeError):
        kind = type(drawn).__name__
        raise PartError(f"the coefficient {name} returned a {kind}; expected one λ per row, an array") from None
    check_tensor(f"the coefficient {name}", "λ", torch.from_numpy(numbers), (size,), limits=(0.0, 1.0))
    return numbers
