"""Distributions of the mixing coefficient λ."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from interreplay.argument_checks import check_number


class Coefficient(Protocol):
    """Draws λ."""

    def __call__(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Return λ ``(size,)`` between 0 and 1, one per row."""
        ...


class Beta:
    """λ ~ Beta(α, α), as mixup draws it (Zhang et al. 2018, arXiv:1710.09412).

    Args:
        alpha: α > 0. Small values hug 0 and 1, 1 is uniform, large ones hug ½.
    """

    def __init__(self, alpha: float = 0.75):
        check_number("alpha", alpha, 0, above_low=True)
        self.alpha = float(alpha)

    def __call__(self, size: int, rng: np.random.Generator) -> np.ndarray:
        return rng.beta(self.alpha, self.alpha, size)


class Uniform:
    """λ ~ U(0, 1), as SMOTE and LCER draw it."""

    def __call__(self, size: int, rng: np.random.Generator) -> np.ndarray:
        return rng.random(size)
