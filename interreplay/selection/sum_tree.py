"""A sum tree that draws and updates whole batches at once."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

FANOUT = 16
"""Children per node. Wider trees have fewer levels, each a few vector operations per batch."""
TOP = 8192
"""Nodes at most in the top level, which is summed up and searched as a whole for every batch."""


def level_widths(size: int) -> list[int]:
    """Return nodes per level, from the leaves to the top."""
    widths = [size]
    while widths[-1] > TOP:
        widths.append(-(-widths[-1] // FANOUT))
    return widths


def keep_last(index: Tensor) -> Tensor:
    """Return positions in `index` ``(n,)`` of the last occurrence of each value, in ascending order of the value."""
    order = torch.argsort(index, stable=True)
    ordered = index[order]
    last = torch.ones_like(ordered, dtype=torch.bool)
    torch.ne(ordered[1:], ordered[:-1], out=last[:-1])
    return order[last]


class SumTree:
    """Sums of non-negative leaves, each inner node the sum of its 16 children.

    Inner nodes are recomputed from their children, never adjusted by differences, so that rounding does
    not accumulate over a run. All sums are float64.

    Args:
        size: Number of leaves.
        device: Torch device.
    """

    def __init__(self, size: int, device: torch.device):
        self.size = size
        self.levels = [
            torch.zeros(-(-w // FANOUT), FANOUT, dtype=torch.float64, device=device) for w in level_widths(size)
        ]

    @staticmethod
    def nbytes(size: int) -> int:
        """Return bytes of a tree with `size` leaves."""
        return sum(-(-w // FANOUT) * FANOUT * 8 for w in level_widths(size))

    @property
    def leaves(self) -> Tensor:
        """All leaves ``(size,)``, sharing memory with the tree."""
        return self.levels[0].view(-1)[: self.size]

    def total(self) -> Tensor:
        """Return the sum of all leaves, a scalar tensor."""
        return self.levels[-1].sum()

    def set(self, index: Tensor, values: Tensor) -> None:
        """Set leaves `index` ``(n,)`` to `values` ``(n,)``; a leaf that comes twice has the same value twice."""
        self.levels[0].view(-1).index_copy_(0, index, values.to(torch.float64))
        for below, level in itertools.pairwise(self.levels):
            index = index // FANOUT
            level.view(-1).index_copy_(0, index, below.index_select(0, index).sum(dim=1))

    def find(self, shares: Tensor) -> tuple[Tensor, Tensor]:
        """Draw leaves by their share of the total.

        Args:
            shares: ``(n,)`` float64, 0 ≤ share < 1.

        Returns:
            Leaves ``(n,)`` int64 in which the cumulative sum first exceeds share·total, and the
            probability ``(n,)`` float64 of each.
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
        if len(value) and not bool(value.min() > 0):
            index = self._positive(index, value <= 0)
            value = self.leaves.index_select(0, index)
        return index, value / sums[-1]

    def _positive(self, index: Tensor, empty: Tensor) -> Tensor:
        """Move the draws that rounding carried past the last positive leaf of a node back to that leaf."""
        positive = (self.leaves > 0).nonzero().squeeze(1)
        before = (torch.searchsorted(positive, index[empty], right=True) - 1).clamp_(min=0)
        return index.masked_scatter(empty, positive[before])
