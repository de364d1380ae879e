"""A sum tree that draws and updates whole batches at once."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch import Tensor

FANOUT = 16
"""Children per node. Wider trees have fewer levels, and each level takes a few vector operations per batch."""
TOP = 8192
"""Maximum number of nodes in the top level, which is summed and searched as a whole for each batch."""


def level_widths(size: int) -> list[int]:
    """Return the number of nodes per level, from the leaves to the top."""
    widths = [size]
    while widths[-1] > TOP:
        widths.append(-(-widths[-1] // FANOUT))
    return widths


class SumTree:
    """Sums of non-negative leaves: each inner node is the sum of its 16 children, in float64.

    Inner nodes are recomputed from their children, never adjusted by differences, so rounding errors do not accumulate.
    """

    def __init__(self, size: int):
        self.size = size
        self.levels: list[Tensor] = []
        for width in level_widths(size):
            self.levels.append(torch.zeros(-(-width // FANOUT), FANOUT, dtype=torch.float64))

    @staticmethod
    def nbytes(size: int) -> int:
        """Return the memory in bytes of a tree with `size` leaves."""
        return sum(-(-width // FANOUT) * FANOUT * 8 for width in level_widths(size))

    @property
    def leaves(self) -> Tensor:
        """All leaves ``(size,)``, sharing memory with the tree."""
        return self.levels[0].view(-1)[: self.size]

    def total(self) -> Tensor:
        """Return the sum of all leaves, a scalar tensor."""
        return self.levels[-1].sum()

    def set(self, index: Tensor, values: Tensor) -> None:
        """Set the leaves `index` ``(n,)`` to `values` ``(n,)``; duplicate leaves must have equal values."""
        self.levels[0].view(-1).index_copy_(0, index, values.to(torch.float64))
        for below, level in itertools.pairwise(self.levels):
            index = index // FANOUT
            level.view(-1).index_copy_(0, index, below.index_select(0, index).sum(dim=1))

    def set_powers(self, raw: Tensor, exponent: float) -> None:
        """Set the leaves of all priorities `raw` ``(size,)`` > 0 to raw^exponent if they differ by more than rounding.

        This makes a loaded tree consistent with an exponent that differs from the saved one.
        """
        stored = (raw > 0).nonzero().squeeze(1)
        powers = raw[stored].double() ** exponent
        if not torch.allclose(self.leaves[stored], powers, rtol=1e-12, atol=0.0):  # rounding depends on the batch size
            self.set(stored, powers)

    def find(self, shares: Tensor) -> tuple[Tensor, Tensor]:
        """Draw leaves by their share of the total.

        Args:
            shares: ``(n,)`` float64, 0 ≤ share < 1.

        Returns:
            Leaves ``(n,)`` int64 at which the cumulative sum first exceeds share·total, and the probability ``(n,)``
            float64 of each.
        """
        top = self.levels[-1].view(-1)
        sums = top.cumsum(0)
        mass = shares * sums[-1]
        index = torch.searchsorted(sums, mass, right=True).clamp_(max=len(sums) - 1)
        value = top.index_select(0, index)
        rest = mass.sub_(sums.index_select(0, index)).add_(value)
        for level in reversed(self.levels[:-1]):
            before = level.index_select(0, index).cumsum(dim=1)
            position = torch.searchsorted(before, rest.unsqueeze(1), right=True).clamp_(max=FANOUT - 1)
            index = torch.add(position.squeeze(1), index, alpha=FANOUT)
            value = level.view(-1).index_select(0, index)
            rest.sub_(before.gather(1, position).squeeze(1)).add_(value)
        if len(value) and not bool(value.min() > 0):  # rounding went past the last positive leaf of a node: go back
            positive = (self.leaves > 0).nonzero().squeeze(1)
            empty = value <= 0
            before = (torch.searchsorted(positive, index[empty], right=True) - 1).clamp_(min=0)
            index = index.masked_scatter(empty, positive[before])
            value = self.leaves.index_select(0, index)
        return index, value / sums[-1]


def strata(count: int, rng: np.random.Generator) -> Tensor:
    """Draw a point ``(count,)`` from each of `count` equal parts of 0 to 1."""
    return torch.from_numpy((np.arange(count) + rng.random(count)) / max(count, 1))
