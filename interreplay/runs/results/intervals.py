"""Point estimates and bootstrap intervals, computed with SciPy.

The bootstrap is stratified as in Agarwal et al. 2021 (arXiv:2108.13264): the runs of each environment are resampled
separately. `scipy.stats.bootstrap` does this if each environment is a separate sample.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]
CONFIDENCE = 0.95
RESAMPLES = 2000
FLOOR = 0.05
"""Smallest mean in a ratio, as a normalized return: a ratio to a mean near 0 is meaningless."""


def mean(*strata: Array, axis: int = -1) -> Any:
    """Return the mean over environments of the mean over runs."""
    return np.mean([np.mean(stratum, axis=axis) for stratum in strata], axis=0)


def iqm(*strata: Array, axis: int = -1) -> Any:
    """Return the interquartile mean of all runs of all environments: the mean of the middle half."""
    return stats.trim_mean(np.concatenate(strata, axis=axis), 0.25, axis=axis)


def interval(statistic: Callable[..., Any], strata: Sequence[Array]) -> tuple[Any, Any]:
    """Return the 95 % percentile interval of a statistic.

    Args:
        statistic: Called with arrays like `strata` and ``axis=-1``.
        strata: One array ``(..., runs)`` per environment (and method); each is resampled separately.

    Returns:
        Lower and upper bound; NaN if a stratum has fewer than two runs, or if the statistic of some resamples is NaN.
    """
    if min(stratum.shape[-1] for stratum in strata) < 2:
        unknown = np.full(strata[0].shape[:-1], np.nan)[()]
        return unknown, unknown
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)  # for resamples with a statistic of NaN
        found = stats.bootstrap(
            tuple(strata),
            statistic,
            n_resamples=RESAMPLES,
            vectorized=True,
            axis=-1,
            confidence_level=CONFIDENCE,
            method="percentile",
            rng=np.random.default_rng(0),
        ).confidence_interval
    return found.low, found.high


def difference(ours: Array, theirs: Array, axis: int = -1) -> Any:
    """Return the difference between the means of two methods' runs."""
    return np.mean(ours, axis=axis) - np.mean(theirs, axis=axis)


def improvement(*strata: Array, axis: int = -1) -> Any:
    """Return the probability that a run of one method beats a run of another, averaged over environments.

    Ties count half. The strata are the first method's runs per environment, then the second's.
    """
    pairs = len(strata) // 2
    shares = []
    for ours, theirs in zip(strata[:pairs], strata[pairs:], strict=True):
        u = stats.mannwhitneyu(ours, theirs, axis=axis, method="asymptotic").statistic
        shares.append(u / (ours.shape[axis] * theirs.shape[axis]))
    return np.mean(shares, axis=0)


def ratio(*strata: Array, axis: int = -1) -> Any:
    """Return the ratio of two methods' means, as the geometric mean over environments; strata as in `improvement`.

    Returns are normalized; means below `FLOOR` count as `FLOOR`.
    """
    pairs = len(strata) // 2
    logs = []
    for stratum in strata:
        logs.append(np.log(np.maximum(np.mean(stratum, axis=axis), FLOOR)))
    return np.exp(np.mean(logs[:pairs], axis=0) - np.mean(logs[pairs:], axis=0))


@dataclass(frozen=True)
class Difference:
    """The difference between the means of two arms, with the 95 % interval of Student's t distribution.

    The bounds are NaN with fewer than two seeds.
    """

    value: float
    low: float
    high: float
    seeds: int

    def __str__(self) -> str:
        interval = "" if math.isnan(self.low) else f" [{self.low:+,.1f}, {self.high:+,.1f}]"
        return f"{self.value:+,.1f}{interval}"


def compare_seeds(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Difference:
    """Return the mean of the differences between the values of equal seeds."""
    differences = [value - theirs[seed] for seed, value in ours.items() if seed in theirs]
    value = float(np.mean(differences)) if differences else math.nan
    low = math.nan
    high = math.nan
    if len(differences) > 1:
        low, high = map(float, stats.ttest_1samp(differences, 0.0).confidence_interval(CONFIDENCE))
    return Difference(value, low=low, high=high, seeds=len(differences))
