"""Which hidden units a forward pass leaves out (Srivastava et al. 2014, JMLR 15)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

Dropped = list[list[Tensor]]
"""Of each network, and of each hidden layer, the units left out: flat indices into ``(n, width)``, or such a mask."""


def left_out(values: Tensor, dropped: Tensor) -> Tensor:
    """Return values ``(n, width)`` that are 0 where a unit is left out.

    Args:
        values: Of the units.
        dropped: Flat indices of the units, or a mask ``(n, width)``.
    """
    kept = values.clone(memory_format=torch.contiguous_format)
    leave_out(kept, dropped)
    return kept


def leave_out(values: Tensor, dropped: Tensor) -> None:
    """Set contiguous values to 0 where a unit is left out, as `left_out` returns them."""
    if dropped.dtype is torch.bool:
        values.masked_fill_(dropped, 0.0)
    else:
        values.view(-1).index_fill_(0, dropped, 0.0)


class Dropout:
    """Draws the hidden units that passes leave out, each with probability p and independently.

    Points are thrown on the units of a layer, a Poisson number of them with mean λ = −log(1 − p) per unit, each to a
    uniformly random unit. The points on different units are then independent and Poisson with mean λ, so that a unit is
    hit with probability 1 − exp(−λ) = p; one that is hit twice appears twice. That is a random number per unit that is
    left out, not one per unit. How many they are the processor has to know, for which it would wait for another device:
    there a mask is drawn.

    Args:
        p: In (0, 1).
        widths: Of the hidden layers of a network.
    """

    def __init__(self, p: float, widths: Sequence[int]):
        self.p, self._widths = p, tuple(widths)
        self._means: dict[tuple[int, int, torch.device], Tensor] = {}

    def draw(self, networks: int, rows: int, rng: torch.Generator) -> Dropped:
        """Draw those of one pass.

        Args:
            networks: How many run.
            rows: Their number n.
            rng: Source of randomness, on the device of the rows.
        """
        if rng.device.type != "cpu":
            return self.draw_masks(networks, rows, rng)
        key, depth = (networks, rows, rng.device), len(self._widths)
        sizes = [rows * width for width in self._widths]
        if key not in self._means:
            means = torch.tensor(sizes * networks, dtype=torch.float64, device=rng.device)
            self._means = {key: means.mul_(-math.log1p(-self.p)), **dict(list(self._means.items())[:7])}
        counts = list(map(int, torch.poisson(self._means[key], generator=rng).tolist()))
        if min(sizes) == max(sizes):  # one draw serves all
            found = torch.randint(sizes[0], (sum(counts),), generator=rng, device=rng.device).split(counts)
        else:
            each = zip(sizes * networks, counts, strict=True)
            found = tuple(torch.randint(size, (count,), generator=rng, device=rng.device) for size, count in each)
        return [list(found[i : i + depth]) for i in range(0, len(found), depth)]

    def draw_masks(self, networks: int, rows: int, rng: torch.Generator) -> Dropped:
        """Draw masks by a number per unit; arguments as of `draw`."""
        sizes = [(networks, rows, width) for width in self._widths]
        layers = [torch.rand(size, generator=rng, device=rng.device) < self.p for size in sizes]
        return [[layer[network] for layer in layers] for network in range(networks)]
