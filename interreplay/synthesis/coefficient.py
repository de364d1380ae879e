"""Distributions of the mixing coefficient λ."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from interreplay.errors import check_number

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
