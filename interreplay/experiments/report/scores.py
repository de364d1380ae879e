"""What 0 and 1 are in each environment, so that environments can be averaged, and the threshold to reach."""

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

KEYS = ("low", "high", "threshold")


@dataclass(frozen=True)
class Scores:
    """What the user says of environments.

    Attributes:
        given: By environment some of `KEYS`, in returns.
        threshold: Elsewhere, on the scale from 0 to 1.
    """

    given: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    threshold: float = 0.8


@dataclass(frozen=True)
class Scale:
    """A scale of returns.

    Attributes:
        low: The return that is 0.
        high: The return that is 1.
        threshold: The return to reach.
        how: Where the three come from.
    """

    low: float
    high: float
    threshold: float
    how: str

    def normalized(self, values: Any) -> Any:
        """Return values as shares of the way from `low` to `high`."""
        return (values - self.low) / (self.high - self.low)


def read_scores(path: Path) -> dict[str, dict[str, float]]:
    """Read scores of environments: ``{"Hopper-v5": {"low": 18, "high": 3200, "threshold": 3000}}``, each optional.

    Raises:
        UsageError: The file cannot be read or says something else.
    """
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"--scores {path} cannot be read: {' '.join(str(error).split())}") from None
    example = 'expected {"Hopper-v5": {"low": 18, "high": 3200, "threshold": 3000}}'
    if not isinstance(found, dict) or not all(isinstance(entry, dict) for entry in found.values()):
        raise UsageError(f"--scores {path} holds no scores by environment; {example}")
    for env, entry in found.items():
        for key, value in entry.items():
            number = isinstance(value, int | float) and math.isfinite(value)
            if key not in KEYS or not number:
                raise UsageError(f"--scores {path}: {env} says {key}: {value!r}; {example}")
    return found


def find_scale(
    env: str, measure: str, shared: Mapping[str, Curves], runs: Sequence[Run], scores: Scores
) -> Scale | None:
    """Return the scale of an environment: given, or from random actions (0) to the best method's mean final return (1).

    Args:
        env: The environment.
        measure: The column that is compared; success rates are on a scale from 0 to 1 already.
        shared: The curves of the methods over the steps that all of them have.
        runs: The runs behind these curves.
        scores: What the user gave.

    Returns:
        None where the best method is no better than the start, or nothing can be compared.
    """
    if not shared:
        return None
    given = scores.given.get(env, {})
    if measure == "success":
        low, high, how = 0.0, 1.0, "success rates need no scale"
    else:
        low, how = _start(shared, runs)
        best = max(shared, key=lambda method: float(shared[method].finals().mean()))
        high = float(shared[best].finals().mean())
        how = f"0 is {how}, 1 the mean final return of the best method here ({best})"
    if "low" in given or "high" in given:
        low, high = given.get("low", low), given.get("high", high)
        how = " and ".join(f"{name} given" for name in ("low", "high") if name in given) + f"; otherwise {how}"
    if not high > low:
        return None
    return Scale(low, high, given.get("threshold", low + scores.threshold * (high - low)), how)


def _start(shared: Mapping[str, Curves], runs: Sequence[Run]) -> tuple[float, str]:
    """Return the mean return of random actions, where runs report any; else the first value of the curves."""
    random: list[float] = []
    for run in runs:
        begins = run.description.settings.get("learning_starts")
        steps, returns = points(run, "training")
        random.extend(returns[steps <= begins] if isinstance(begins, int | float) else ())
    if random:
        return float(np.mean(random)), "the mean training return before learning starts, with random actions"
    return float(np.mean([c.values[:, 0].mean() for c in shared.values()])), "the mean return at the first common step"
