"""Normalization: the returns 0 and 1 of each environment, and the threshold."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from interreplay.errors import UsageError
from interreplay.experiments.report.curves import Curves, points
from interreplay.experiments.report.reading.runs import Run

KEYS = {"low", "high", "threshold"}
EXAMPLE = '{"Hopper-v5": {"low": 18, "high": 3200, "threshold": 3000}}'


@dataclass(frozen=True)
class Scores:
    """Known returns by environment, each with some of `KEYS`, and the default threshold as a normalized return."""

    given: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    threshold: float = 0.8


@dataclass(frozen=True)
class Scale:
    """A scale of returns: those normalized to 0 and 1, the threshold to reach, and the origin of these numbers."""

    low: float
    high: float
    threshold: float
    how: str

    def normalize(self, values: Any) -> Any:
        """Return normalized returns: 0 for `low`, 1 for `high`."""
        return (values - self.low) / (self.high - self.low)


def read_scores(path: Path) -> dict[str, dict[str, float]]:
    """Read returns by environment from a JSON file, in the format of `EXAMPLE`; each key is optional."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"--scores {path} cannot be read: {' '.join(str(error).split())}") from None
    try:
        for entry in found.values():
            if not KEYS.issuperset(entry) or not all(map(math.isfinite, entry.values())):
                raise ValueError(entry)
    except (AttributeError, TypeError, ValueError):
        raise UsageError(f"--scores {path} does not hold returns by environment; expected {EXAMPLE}") from None
    return found


def find_scale(
    env: str, measure: str, shared: Mapping[str, Curves], runs: Sequence[Run], scores: Scores
) -> Scale | None:
    """Return the scale of an environment: as given, or from random actions (0) to the best mean final return (1).

    `shared` holds curves of the methods over the steps that all of them have, of these `runs`. Success rates are
    between 0 and 1 already. Return None if nothing can be compared, or the best method is not better than the start.
    """
    if not shared:
        return None
    given = scores.given.get(env, {})
    if measure == "success":
        low = 0.0
        high = 1.0
        how = "success rates need no scale"
    else:
        low, start = _start(shared, runs)
        best = max(shared, key=lambda method: shared[method].finals().mean())
        high = float(shared[best].finals().mean())
        how = f"0 is {start}, 1 the mean final return of the best method here ({best})"
    low = given.get("low", low)
    high = given.get("high", high)
    if {"low", "high"} & given.keys():
        how = f"as given by --scores; otherwise {how}"
    if not high > low:
        return None
    threshold = given.get("threshold", low + scores.threshold * (high - low))
    return Scale(low, high, threshold, how)


def _start(shared: Mapping[str, Curves], runs: Sequence[Run]) -> tuple[float, str]:
    """Return the mean return of random actions if runs report it, else the first value of the curves."""
    at_random: list[float] = []
    for run in runs:
        settings = run.description.settings
        begins = settings.get("learning_starts", settings.get("num_steps_sampled_before_learning_starts"))
        if isinstance(begins, int | float):
            steps, returns = points(run, "training")
            at_random.extend(returns[steps <= begins])
    if at_random:
        return float(np.mean(at_random)), "the mean training return before learning starts, with random actions"
    first = [curves.values[:, 0].mean() for curves in shared.values()]
    return float(np.mean(first)), "the mean return at the first common step"
