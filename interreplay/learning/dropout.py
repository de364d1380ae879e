"""Which hidden units a forward pass leaves out (Srivastava et al. 2014, JMLR 15)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

Dropped = list[list[Tensor]]
"""Of each network, and of each of its hidden layers: flat indices into ``(n, width)`` of the units left out."""


def draw_dropped(p: float, networks: int, rows: int, widths: Sequence[int], rng: torch.Generator) -> Dropped:
    """Draw the hidden units that one pass leaves out, each with probability p and independently.

    Points are thrown on the units of a layer, a Poisson number of them with mean λ = −log(1 − p) per unit, each to a
    uniformly random unit. The points on different units are then independent and Poisson with mean λ, so that a unit is
    hit with probability 1 − exp(−λ) = p; one that is hit twice appears twice. That is a random number per unit that is
    left out, not one per unit.

    Args:
        p: In (0, 1).
        networks: Their number.
        rows: Their number n.
        widths: Of the hidden layers.
        rng: Source of randomness, on the device of the rows.
    """
    sizes = [rows * width for width in widths]
    means = torch.tensor(sizes * networks, dtype=torch.float64, device=rng.device).mul_(-math.log1p(-p))
    counts = [int(count) for count in torch.poisson(means, generator=rng).tolist()]
    if len(set(sizes)) == 1:  # one draw serves all
        found = list(torch.randint(sizes[0], (sum(counts),), generator=rng, device=rng.device).split(counts))
    else:
        each = zip(sizes * networks, counts, strict=True)
        found = [torch.randint(size, (count,), generator=rng, device=rng.device) for size, count in each]
    return [found[i : i + len(widths)] for i in range(0, len(found), len(widths))]
