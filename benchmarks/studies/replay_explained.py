"""Rank correlations of learning with properties of batches, as defined in studies/experience_replay.yaml.

A table of runs has one row per run and columns ``task``, ``arm``, ``seed``, ``area`` (mean evaluation return above
random play) and measures of the batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

CORRELATION = "state_cosine_excess"
ERROR = "td_error_mean"
"""The two measures that the study compares."""


class Interval(NamedTuple):
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the value and its interval for a table."""
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


def rank_correlation(runs: Mapping[str, np.ndarray] | pd.DataFrame, measure: str, held: str | None = None) -> float:
    """Return Spearman's rank correlation of the area with a measure, controlling for `held` if it is given.

    The partial correlation is the correlation of the ranks' residuals after a linear fit to the ranks of `held`. The
    result is NaN if one of the quantities is the same for all runs.
    """
    ranks = [stats.rankdata(runs[name]) for name in ("area", measure, held) if name is not None]
    if any(np.ptp(rank) == 0 for rank in ranks):
        return float("nan")
    r = np.corrcoef(ranks)
    if held is None:
        return float(r[0, 1])
    left = np.sqrt((1 - r[0, 2] ** 2) * (1 - r[1, 2] ** 2))
    return float((r[0, 1] - r[0, 2] * r[1, 2]) / left) if left > 1e-9 else float("nan")


def over_seeds(arms: pd.Series, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield indices ``(n,)`` of runs, drawn with replacement within each of the `arms` ``(n,)``."""
    rng = np.random.default_rng(seed)
    places = [np.flatnonzero(arms == arm) for arm in arms.unique()]
    for _ in range(resamples):
        yield np.concatenate([rng.choice(arm, len(arm)) for arm in places])


def explained(
    runs: pd.DataFrame, measure: str, held: str | None = None, resamples: int = 2_000, seed: int = 0
) -> Interval:
    """Return `rank_correlation` within one task, and its percentile interval over seeds; NaN if nothing varies."""
    columns = {name: runs[name].to_numpy() for name in ("area", measure, held) if name is not None}
    drawn = []
    for places in over_seeds(runs["arm"], resamples, seed):
        resampled = {name: column[places] for name, column in columns.items()}
        drawn.append(rank_correlation(resampled, measure, held))
    found = np.array(drawn)[~np.isnan(drawn)]
    low, high = np.percentile(found, [2.5, 97.5]) if len(found) else (np.nan, np.nan)
    return Interval(rank_correlation(columns, measure, held), float(low), float(high))


def ratio(ours: Sequence[float], theirs: Sequence[float], resamples: int = 10_000, seed: int = 0) -> Interval:
    """Return the ratio of two mean areas and its percentile interval over seeds; the denominator must be positive."""
    rng = np.random.default_rng(seed)
    a = np.asarray(ours, float)
    b = np.asarray(theirs, float)
    means = [x[rng.integers(0, len(x), (resamples, len(x)))].mean(1) for x in (a, b)]
    low, high = np.percentile(means[0] / np.maximum(means[1], 1e-9), [2.5, 97.5])
    return Interval(float(a.mean() / b.mean()), float(low), float(high))
