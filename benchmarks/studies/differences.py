"""Differences between the means of independent runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from interreplay.runs.results.intervals import CONFIDENCE, Difference


def independent(ours: Sequence[float], theirs: Sequence[float]) -> Difference:
    """Return the difference between the means of independent runs, with Welch's interval."""
    value = float(np.mean(ours) - np.mean(theirs))
    seeds = min(len(ours), len(theirs))
    if seeds < 2:
        return Difference(value, math.nan, math.nan, seeds)
    found = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(CONFIDENCE)
    return Difference(value, float(found.low), float(found.high), seeds)


def verdict(effect: Difference, above: str, below: str) -> str:
    """Return the conclusion from a difference: `above` or `below` if its interval excludes 0."""
    if effect.low > 0:
        return above
    return below if effect.high < 0 else "undecided"
