"""Combined selection: the newest row is always in the batch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from interreplay.selection.base import Selector, Stored
from interreplay.selection.composite import Composite
from interreplay.selection.uniform import Uniform


class Combined(Composite):
    """n − 1 rows by another selector and, last, the newest row (Zhang & Sutton 2017, arXiv:1712.01275).

    The probability of row i is its expected share of the batch, P(i) = ((n − 1)·p(i) + [i is the newest]) / n with
    p that of the inner selector; importance weights are what the inner selector makes of it.

    Args:
        inner: `Uniform()` by default, or one that `knows_probabilities`, as `Prioritized` does.

    Raises:
        ValueError: When the inner selector is another.
    """

    def __init__(self, inner: Selector | None = None):
        self.inner = inner if inner is not None else Uniform()
        super().__init__({"inner": self.inner})
        self.by_write_order = True
        self.critic_loss = self.inner.critic_loss
        if not self.inner.knows_probabilities:
            kind = type(self.inner).__name__
            raise ValueError(f"the inner selector is {kind}; expected one that knows_probabilities, such as Uniform")

    def select(self, stored: Stored, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        newest = torch.full((1,), (stored.written - 1) % stored.capacity, device=stored.device)
        if size == 1:
            return newest, torch.ones(1, device=stored.device)
        slots, drawn = self.inner.select(stored, size - 1, rng)
        own = self.inner.probabilities(newest, stored)
        slots = torch.cat([slots, newest])
        share = torch.cat([drawn, own]) * (size - 1) + (slots == newest)
        return slots, share / size

    def weights(self, stored: Stored, probabilities: Tensor) -> Tensor:
        return self.inner.weights(stored, probabilities)

    def errors_of(self, td_errors: Tensor, scores: Mapping[str, Tensor]) -> Tensor:
        return self.inner.errors_of(td_errors, scores)

    def update(self, slots: Tensor, td_errors: Tensor) -> None:
        self.inner.update(slots, td_errors)
