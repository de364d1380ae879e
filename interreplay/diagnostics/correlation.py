"""Measures of the dependence between the rows of a batch, compared with uniformly drawn rows."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from interreplay.storage.columns import is_observation
from interreplay.storage.ring import Storage

ROWS = 64
"""Maximum number of rows to compare in pairs; the cost is quadratic."""
SCALE = 256
"""Number of rows from which states are standardized."""
BINS = 20
"""Number of equal parts into which the stored rows are divided by age."""
WIDEST = 512
"""Maximum number of values in a state for which states are compared; larger states are images."""
CORRELATED = 0.9
"""|cos| above which two standardized states are correlated."""


def describe_correlation(storage: Storage, slots: Tensor, uniform: Tensor) -> dict[str, float]:
    """Return measures of the rows in `slots` ``(n,)``, and as ``..._expected`` of uniformly drawn rows ``(m,)``.

    Returns:
        ``same_episode_share``: share of pairs of rows that belong to the same episode.
        ``time_gap``: mean |Δt| of pairs in rows written, divided by the number of stored rows; 1/3 if independent.
        ``age_ess``: Kish's effective number of ages, (Σc)² / (b·Σc²) for the counts c of rows in b parts of equal age:
        1 if all ages are equally frequent, 1/b if there is only one (Kish 1965, Survey Sampling).
        ``state_cosine``: mean |cos| of pairs of states standardized over the uniform rows; omitted if a state has more
        than 512 values.
    """
    expected = uniform[: min(ROWS, len(slots))]
    found = {
        "same_episode_share": share_of_equal(storage.column("episode")[slots]),
        "same_episode_expected": share_of_equal(storage.column("episode")[uniform]),
    }
    for suffix, rows in (("", slots[:ROWS]), ("_expected", expected)):
        written = storage.write_numbers(rows)
        found[f"time_gap{suffix}"] = mean_gap(written) / len(storage)
        found[f"age_ess{suffix}"] = age_ess(storage.written - 1 - written, len(storage))
    if has_vectors(storage):
        std, mean = torch.std_mean(states(storage, uniform[:SCALE]), dim=0)
        found["state_cosine"] = mean_cosine(states(storage, slots[:ROWS]), std, mean)
        found["state_cosine_expected"] = mean_cosine(states(storage, expected), std, mean)
    return found


def count_correlated(storage: Storage, slots: Tensor, uniform: Tensor) -> tuple[float, float]:
    """Return the number of correlated pairs among the first 64 rows in `slots`, and among as many uniform rows.

    Two rows are correlated if |cos| of their states, standardized over the at least 64 uniform rows, is above
    `CORRELATED`; 64 rows have 2,016 pairs. States with two values are correlated in 29 % of the pairs by chance, hence
    the comparison. Both numbers are NaN if a state has more than 512 values.
    """
    if not has_vectors(storage):
        return math.nan, math.nan
    reference = states(storage, uniform)
    std, mean = torch.std_mean(reference, dim=0)
    counts = []
    for rows in (states(storage, slots[:ROWS]), reference[: min(ROWS, len(slots))]):
        cosines = absolute_cosines(rows, std, mean)
        counts.append((cosines.triu(diagonal=1) > CORRELATED).sum())
    found, chance = torch.stack(counts).tolist()
    return found, chance


def has_vectors(storage: Storage) -> bool:
    """Return whether states have at most `WIDEST` values; larger ones are images."""
    size = 0
    for name, (shape, _) in storage.columns.items():
        if is_observation(name):
            size += math.prod(shape)
    return size <= WIDEST


def share_of_equal(episodes: Tensor) -> float:
    """Return the share of pairs of rows with equal ids, for ids ``(n,)``."""
    counts = episodes.unique(return_counts=True)[1].double()
    n = len(episodes)
    return float((counts * (counts - 1)).sum() / max(1, n * (n - 1)))


def mean_gap(numbers: Tensor) -> float:
    """Return the mean |a − b| over the pairs of `numbers` ``(n,)``; 0 for a single number."""
    gaps = torch.pdist(numbers.double()[:, None], p=1)
    return float(gaps.sum() / max(1, len(gaps)))


def age_ess(ages: Tensor, stored: int) -> float:
    """Return Kish's effective number of ages ``(n,)`` from 0 to `stored` − 1, divided by `BINS`."""
    counts = torch.bincount((ages * BINS).div(stored, rounding_mode="floor"), minlength=BINS).double()
    return float(counts.sum().square() / (BINS * counts.square().sum()))


def states(storage: Storage, slots: Tensor) -> Tensor:
    """Return the flat states ``(n, d)`` float32 in `slots` ``(n,)``, with desired goals."""
    return storage.features(slots)[:, : -math.prod(storage.columns["actions"][0])]


def absolute_cosines(rows: Tensor, std: Tensor, mean: Tensor) -> Tensor:
    """Return |cos| ``(n, n)`` of the pairs of `rows` ``(n, d)``, standardized by `std` and `mean`."""
    unit = torch.nn.functional.normalize(torch.where(std > 0, (rows - mean) / std, 0.0), dim=1)
    return (unit @ unit.T).abs()


def mean_cosine(rows: Tensor, std: Tensor, mean: Tensor) -> float:
    """Return the mean |cos| over the pairs of `rows` ``(n, d)``, standardized by `std` and `mean`; 0 for one row."""
    cosines = absolute_cosines(rows, std, mean)
    n = len(rows)
    return float((cosines.sum() - cosines.diagonal().sum()) / max(1, n * (n - 1)))
