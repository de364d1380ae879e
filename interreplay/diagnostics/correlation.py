"""How far the rows of a batch are from independent ones, each measure beside what uniformly drawn rows give."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from interreplay.storage.columns import is_observation
from interreplay.storage.ring import Storage

ROWS = 64
"""Rows of either kind that are compared at most: their pairs cost the square."""
SCALE = 256
"""Rows over which states are standardized."""
BINS = 20
"""Parts of equal size that the stored rows are put into by age."""
WIDEST = 512
"""Numbers in a state up to which states are compared; beyond are images."""


def describe_correlation(storage: Storage, slots: Tensor, uniform: Tensor) -> dict[str, float]:
    """Return measures of the rows in `slots` ``(n,)``, and as ``..._expected`` those of rows drawn uniformly.

    Args:
        storage: Where both lie.
        slots: A batch.
        uniform: Slots ``(m,)`` of rows drawn uniformly from all that are stored.

    Returns:
        ``same_episode_share``: share of pairs of rows that are of one episode.
        ``time_gap``: mean |Δt| of pairs in rows written, as a share of those stored; 1/3 where rows are independent.
        ``age_ess``: Kish's effective number of ages, (Σc)² / (b·Σc²) for counts c of rows in b parts of equal age:
        1 where all ages come alike, 1/b where one does (Kish 1965, Survey Sampling).
        ``state_cosine``: mean |cos| of pairs of states whose numbers are standardized over the uniform rows; left out
        where a state has more than 512 numbers.
    """
    some = uniform[: min(ROWS, len(slots))]
    found: dict[str, float] = {}
    for name, rows in (("same_episode_share", slots), ("same_episode_expected", uniform)):
        found[name] = same_share(storage.column("episode")[rows])
    for suffix, rows in (("", slots[:ROWS]), ("_expected", some)):
        written = storage.write_numbers(rows)
        found[f"time_gap{suffix}"] = mean_gap(written) / len(storage)
        found[f"age_ess{suffix}"] = age_ess(storage.written - 1 - written, len(storage))
    if width(storage) <= WIDEST:
        scale = torch.std_mean(states(storage, uniform[:SCALE]), dim=0)
        for suffix, rows in (("", slots[:ROWS]), ("_expected", some)):
            found[f"state_cosine{suffix}"] = mean_cosine(states(storage, rows), scale)
    return found


def same_share(episodes: Tensor) -> float:
    """Return the share of the pairs of rows that have one id, for ids ``(n,)``."""
    counts = episodes.unique(return_counts=True)[1].double()
    n = len(episodes)
    return float((counts * (counts - 1)).sum() / max(1, n * (n - 1)))


def mean_gap(numbers: Tensor) -> float:
    """Return the mean |a − b| over the pairs of `numbers` ``(n,)``; 0 for one."""
    n = len(numbers)
    # In sorted order the i-th of n is added by the i before it and taken away by the n − 1 − i behind it.
    signs = 2.0 * torch.arange(n, device=numbers.device, dtype=torch.float64) - (n - 1)
    return float((numbers.sort().values.double() * signs).sum() / max(1, n * (n - 1) / 2))


def age_ess(ages: Tensor, stored: int) -> float:
    """Return Kish's effective number of ages ``(n,)`` as a share of `BINS`, of 0 to `stored` − 1."""
    counts = torch.bincount((ages * BINS).div(stored, rounding_mode="floor"), minlength=BINS).double()
    return float(counts.sum().square() / (BINS * counts.square().sum()))


def width(storage: Storage) -> int:
    """Return how many numbers all parts of a state have."""
    return sum(math.prod(shape) for name, (shape, _) in storage.columns.items() if is_observation(name))


def states(storage: Storage, slots: Tensor) -> Tensor:
    """Return the states in `slots` ``(n,)``, flat, ``(n, d)`` float32; of goals the desired ones."""
    return storage.features(slots)[:, : -math.prod(storage.columns["actions"][0])]


def mean_cosine(rows: Tensor, scale: tuple[Tensor, Tensor]) -> float:
    """Return the mean |cos| over the pairs of `rows` ``(n, d)``, standardized by ``(std, mean)``; 0 for one row."""
    std, mean = scale
    unit = torch.nn.functional.normalize(torch.where(std > 0, (rows - mean) / std, 0.0), dim=1)
    n = len(rows)
    return float(((unit @ unit.T).abs().sum() - unit.square().sum()) / max(1, n * (n - 1)))
