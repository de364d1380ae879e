"""Statistics of a study of replay methods at several update ratios, fixed in the study's file before the first run.

Areas between learning curves and random play are arrays ``(n,)``, one value per seed. A `Task` contains the areas of
one task by arm; ``"Uniform-1"`` is Uniform at one update per env step.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from benchmarks.studies.study_curves import each_run

Array = NDArray[np.float64]
Task = Mapping[str, Array]
FLOOR = 0.05
"""Lower bound of mean areas, as a share of the best arm's mean area."""
BASELINE = "Uniform"
METHOD = "NMER"
LOW = 1
HIGH = 20
ARMS = (f"{BASELINE}-{LOW}", f"{BASELINE}-{HIGH}", f"{METHOD}-{LOW}", f"{METHOD}-{HIGH}")


def area(steps: Array, returns: Array, random: float, first: int = 2_000) -> float:
    """Return a run's area: its mean evaluation return from step `first` on (trapezoidal rule), minus `random`."""
    kept = steps >= first
    steps = steps[kept]
    returns = returns[kept]
    return float(np.trapezoid(returns, steps) / (steps[-1] - steps[0]) - random)


def get_areas(runs: pd.DataFrame, random: float = 0.0, first: int = 2_000) -> Array:
    """Return the areas ``(n,)`` of an arm's runs, rows of `study_curves.read`, in order of seeds."""
    each = [(run["steps"].to_numpy(float), run["value"].to_numpy(float)) for run in each_run(runs)]
    return np.array([area(steps, returns, random, first) for steps, returns in each])


def get_floor(task: Task) -> float:
    """Return the lower bound of mean areas in a task."""
    return FLOOR * max(float(areas.mean()) for areas in task.values())


def log_ratio(ours: Array, theirs: Array, least: float) -> float:
    """Return the log of the ratio of two mean areas, each raised to at least `least`."""
    return float(np.log(max(ours.mean(), least) / max(theirs.mean(), least)))


def preferred(task: Task, method: str = BASELINE) -> Array:
    """Return a method's areas ``(n,)``, each at the ratio that is better on average in the other half of the seeds.

    If a jackknife leaves a seed out of one arm, the border between its halves moves by half a seed at most.
    """
    low, high = (np.split(task[f"{method}-{ratio}"], [len(task[f"{method}-{ratio}"]) // 2]) for ratio in (LOW, HIGH))
    prefers_high = [high[half].mean() > low[half].mean() for half in (0, 1)]
    return np.concatenate([(high if prefers_high[1 - half] else low)[half] for half in (0, 1)])


Contrast = Callable[[Task], tuple[Array, Array]]
CONTRASTS: dict[str, Contrast] = {
    "A": lambda task: (task[f"{METHOD}-{HIGH}"], preferred(task)),
    "B": lambda task: (task[f"{METHOD}-{HIGH}"], task[f"{BASELINE}-{HIGH}"]),
    "at 1": lambda task: (task[f"{METHOD}-{LOW}"], task[f"{BASELINE}-{LOW}"]),
}


def effect(tasks: Sequence[Task], contrast: Contrast, floors: Sequence[float] | None = None) -> float:
    """Return the mean over tasks of the log ratios of two arms.

    `floors` are the lower bounds of mean areas in each task; None for `get_floor` each.
    """
    if floors is None:
        floors = list(map(get_floor, tasks))
    return float(np.mean([log_ratio(*contrast(task), least) for task, least in zip(tasks, floors, strict=True)]))


def interaction(tasks: Sequence[Task]) -> float:
    """Return the log ratio at many updates per step minus the log ratio at one."""
    return effect(tasks, CONTRASTS["B"]) - effect(tasks, CONTRASTS["at 1"])


def improvement(ours: Sequence[float] | Array, theirs: Sequence[float] | Array) -> float:
    """Return the probability that a run of ours has a larger area than one of theirs; ties count half."""
    difference = np.subtract.outer(np.asarray(ours, float), np.asarray(theirs, float))
    return float((np.sign(difference).mean() + 1) / 2)


@dataclass(frozen=True)
class Estimate:
    """An effect as a ratio, with its 95 % interval and the p-value of a permutation test (NaN without a test)."""

    ratio: float
    low: float
    high: float
    p: float = float("nan")


def bootstrapped(
    tasks: Sequence[Task], statistic: Callable[[Sequence[Task]], float], resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Return the 95 % BCa interval of a statistic.

    Seeds are resampled within each task and arm, and everything else is recomputed. Both ends are NaN if all
    resamples give the same value.
    """
    arms = [list(task) for task in tasks]
    strata: list[Array] = []
    for task in tasks:
        strata.extend(task.values())

    def of(*drawn: Array) -> float:
        left = iter(drawn)
        return statistic([{name: next(left) for name in names} for names in arms])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a division, and of an undefined interval
        found = stats.bootstrap(
            tuple(strata),
            of,
            n_resamples=resamples,
            vectorized=False,
            confidence_level=0.95,
            method="BCa",
            rng=np.random.default_rng(seed),
        ).confidence_interval
    return float(found.low), float(found.high)


def permuted(
    tasks: Sequence[Task],
    contrast: Contrast,
    permutations: int = 20_000,
    seed: int = 0,
    *,
    floors: Sequence[float] | None = None,
) -> float:
    """Return the two-sided p-value of a test that permutes the labels of two arms within each task.

    See `effect` for `floors`.
    """
    rng = np.random.default_rng(seed)
    if floors is None:
        floors = list(map(get_floor, tasks))
    observed = effect(tasks, contrast, floors)
    drawn = np.zeros(permutations)
    for task, least in zip(tasks, floors, strict=True):
        ours, theirs = contrast(task)
        pooled = np.tile(np.concatenate([ours, theirs]), (permutations, 1))
        pooled = rng.permuted(pooled, axis=1)
        means = [np.maximum(part.mean(axis=1), least) for part in np.split(pooled, [len(ours)], axis=1)]
        drawn += np.log(means[0] / means[1]) / len(tasks)
    return float((1 + (np.abs(drawn) >= abs(observed) - 1e-12).sum()) / (1 + permutations))


def estimate(tasks: Sequence[Task], contrast: Contrast, floors: Sequence[float] | None = None) -> Estimate:
    """Return the effect of a contrast with its interval and p-value; see `effect` for `floors`."""
    low, high = bootstrapped(tasks, lambda drawn: effect(drawn, contrast, floors))
    ratio, low, high = map(float, np.exp([effect(tasks, contrast, floors), low, high]))
    return Estimate(ratio, low, high, permuted(tasks, contrast, floors=floors))


def holm(values: Mapping[str, float]) -> dict[str, float]:
    """Return p-values after Holm's correction."""
    found = {}
    running = 0.0
    for place, (name, p) in enumerate(sorted(values.items(), key=lambda item: item[1])):
        running = max(running, min(1.0, (len(values) - place) * p))
        found[name] = running
    return found


def conclusion(primary: Estimate, claims: Mapping[str, float]) -> str:
    """Return the conclusion from the primary effect, as worded in advance: supported, a size excluded, or undecided."""
    if primary.low > 1:
        return "supported in kind"
    excluded = [f"+{round(100 * (size - 1))} % ({name})" for name, size in claims.items() if primary.high < size]
    return f"excluded in size: {', '.join(excluded)}" if excluded else "undecided"
