"""Which hidden units a forward pass leaves out (Srivastava et al. 2014, JMLR 15)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
import torch
from torch import Tensor

Dropped = list[list[Tensor]]
"""Of each network, and of each of its hidden layers: flat indices into ``(n, width)`` of the units left out."""


def draw_dropped(p: float, networks: int, rows: int, widths: Sequence[int], rng: torch.Generator) -> Dropped:
    """Draw the hidden units that one pass leaves out, each with probability p and independently.

    Args:
        p: In (0, 1).
        networks: Their number.
        rows: Their number n.
        widths: Of the hidden layers.
        rng: Source of randomness, on the device of the rows.
    """
    bounds = list(accumulate([rows * width for _ in range(networks) for width in widths], initial=0))
    found = successes(bounds[-1], p, rng).numpy(force=True)
    cuts = np.searchsorted(found, bounds).tolist()
    parts = [
        torch.from_numpy(found[a:b] - start).to(rng.device)
        for (a, b), start in zip(pairwise(cuts), bounds[:-1], strict=True)
    ]
    return [parts[i : i + len(widths)] for i in range(0, len(parts), len(widths))]


def successes(trials: int, p: float, rng: torch.Generator) -> Tensor:
    """Return which of so many independent trials succeed, each with probability p: their numbers, rising, int64.

    The gaps between them are drawn, which are geometric: ⌊log(1 − u) / log(1 − p)⌋ trials fail in between. A number
    per success takes a fraction of the time of one per trial.
    """
    found, last = [], -1
    while last < trials - 1:
        expected = (trials - 1 - last) * p
        count = int(expected + 6.0 * math.sqrt(expected)) + 8  # enough but once in a billion times
        u = torch.rand(count, generator=rng, device=rng.device, dtype=torch.float64)
        between = u.neg_().log1p_().div_(math.log1p(-p)).long()
        found.append(between.add_(1).cumsum(0).add_(last))
        last = int(found[-1][-1])
    numbers = found[0] if len(found) == 1 else torch.cat(found)
    return numbers[: int(torch.searchsorted(numbers, trials))]
