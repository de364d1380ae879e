"""A sum tree that draws and updates whole batches at once."""

from __future__ import annotations

import torch
from torch import Tensor

FANOUT = 16
"""Children per node. Wider trees have fewer levels, each a few vector operations per batch."""


def level_widths(size: int) -> list[int]:
    """Nodes per level, from the leaves to the root."""
    widths = [size]
    while widths[-1] > 1:
        widths.append(-(-widths[-1] // FANOUT))
    return widths


def keep_last(index: Tensor) -> Tensor:
    """Positions in `index` ``(n,)`` of the last occurrence of each value, in ascending order of the value."""
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
        self.levels = [torch.zeros(-(-w // FANOUT), FANOUT, dtype=torch.float64, device=device) for w in level_widths(size)]

    @staticmethod
    def nbytes(size: int) -> int:
        """Bytes of a tree with `size` leaves."""
        return sum(-(-w // FANOUT) * FANOUT * 8 for w in level_widths(size))

    @property
    def leaves(self) -> Tensor:
        """All leaves ``(size,)``, sharing memory with the tree."""
        return self.levels[0].view(-1)[: self.size]

    def total(self) -> Tensor:
        """The sum of all leaves, a scalar tensor."""
        return self.levels[-1][0, 0]

    def set(self, index: Tensor, values: Tensor) -> None:
        """Set leaves `index` ``(n,)``, each at most once, to `values` ``(n,)``."""
        self.levels[0].view(-1)[index] = values.to(torch.float64)
        for below, level in zip(self.levels[:-1], self.levels[1:], strict=True):
            index = index >> 4
            level.view(-1)[index] = below.index_select(0, index).sum(dim=1)

    def find(self, mass: Tensor) -> Tensor:
        """Leaves ``(n,)`` in which the cumulative sum first exceeds `mass` ``(n,)``, 0 ≤ mass < total."""
        index, rest = torch.zeros_like(mass, dtype=torch.int64), mass.unsqueeze(1)
        for level in reversed(self.levels[: max(1, len(self.levels) - 1)]):
            children = level.index_select(0, index)
            cumulative = children.cumsum(dim=1)
            position = (cumulative <= rest).sum(dim=1, keepdim=True).clamp_(max=FANOUT - 1)
            rest = rest - cumulative.sub_(children).gather(1, position)
            index = (index << 4) + position.squeeze(1)
        empty = self.levels[0].view(-1)[index] <= 0
        return self._positive(index, empty) if empty.any() else index

    def _positive(self, index: Tensor, empty: Tensor) -> Tensor:
        """Move the draws that rounding carried past the last positive leaf of a node back to that leaf."""
        positive = (self.leaves > 0).nonzero().squeeze(1)
        before = (torch.searchsorted(positive, index[empty], right=True) - 1).clamp_(min=0)
        return index.masked_scatter(empty, positive[before])
