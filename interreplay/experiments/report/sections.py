"""Group runs for comparison: one section per algorithm, with one task per environment and its scale of returns."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from interreplay.errors import UsageError, accepted_names
from interreplay.experiments.report.curves import Curves, align, points, restrict_to_common_range
from interreplay.experiments.report.reading import FINISHED, Run

UNIFORM = "Uniform"
"""Name of the default baseline."""
MEASURES = {"evaluation": "evaluation return", "training": "training return", "success": "success rate"}
FEW = 5
"""Intervals from fewer runs are too narrow, so that they permit no conclusion."""
NO_SCALE = (
    "No scale in {envs}: no method ends above random play. Normalized returns, ratios and steps to a threshold require "
    "a scale and are left out; returns, their differences and probabilities of improvement do not."
)
NO_BASELINE = "{name} has no counted run in {envs}: nothing is compared there. --baseline NAME selects another method."
COUNT_ALL = "No run counts: nothing is compared. --count all also counts unfinished and crashed runs."
NO_RESULT = "Runs have no {measure}: nothing is compared. --measure selects another result."
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


@dataclass(frozen=True)
class Task:
    """One environment, with the runs of each method that count.

    `own` holds the curves of each method over the steps that all of its runs have, `shared` the same curves over the
    steps that all methods have. The scale contains the returns 0 and 1 of normalized returns, and the threshold.
    """

    env: str
    own: Mapping[str, Curves]
    shared: Mapping[str, Curves]
    counted: Mapping[str, Sequence[Run]]
    scale: Scale | None
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Section:
    """One algorithm: its methods, the baseline first, and a task per environment.

    All figures show the same measure, one of `MEASURES`. The baseline is None if no run of it counts. Notes are remarks
    for the reader.
    """

    algorithm: str
    measure: str
    methods: list[str]
    baseline: str | None
    tasks: list[Task]
    notes: list[str] = field(default_factory=list)

    def find_common_methods(self, ranked: bool = False) -> tuple[list[str], list[Task]]:
        """Return the methods that have counted runs in all environments with a scale, and these environments.

        If methods are `ranked`, which requires no scale, and no environment has one, all environments count.
        """
        tasks = [task for task in self.tasks if task.scale is not None]
        if ranked and not tasks:
            tasks = [task for task in self.tasks if task.shared]
        if not tasks:
            return [], []
        return [method for method in self.methods if all(method in task.shared for task in tasks)], tasks

    def all_notes(self) -> list[str]:
        """Return the notes of the section, then those of its tasks with the environments that they are about."""
        envs: dict[str, list[str]] = {}
        for task in self.tasks:
            for note in task.notes:
                envs.setdefault(note, []).append(task.env)
        notes = list(self.notes)
        for note, names in envs.items():
            notes.append(f"{', '.join(names)}: {note}")
        return notes


def build(
    runs: Sequence[Run], *, baseline: str | None = None, measure: str = "auto", count: str = "finished", scores: Scores
) -> list[Section]:
    """Group runs by algorithm and environment; arguments are as for `make_report`.

    Without a baseline, each algorithm has its own: Uniform, else a method with Uniform in its name, else the first.
    """
    methods = _names("method", runs)
    if baseline is not None and baseline not in methods:
        raise UsageError(f"no run of the baseline {baseline!r}; {accepted_names(baseline, methods)}")
    envs = _names("env", runs)
    if scores.given and scores.given.keys().isdisjoint(envs):
        named = next(iter(scores.given))
        raise UsageError(f"no run in {named!r}, which --scores names; {accepted_names(named, envs)}")
    by_algorithm: dict[str, list[Run]] = {}
    for run in runs:
        if len(run.results):
            by_algorithm.setdefault(run.algorithm, []).append(run)
    sections = []
    for algorithm, members in sorted(by_algorithm.items()):
        sections.append(_section(algorithm, members, baseline, measure, count, scores))
    return sections


def _names(attribute: str, runs: Sequence[Run]) -> list[str]:
    """Return the different values of an attribute, sorted."""
    return sorted({getattr(run, attribute) for run in runs})


def _section(
    algorithm: str, runs: Sequence[Run], baseline: str | None, measure: str, count: str, scores: Scores
) -> Section:
    counted = [run for run in runs if not run.repeats]
    if count == "finished":
        counted = [run for run in counted if run.state == FINISHED]
    notes: list[str] = []
    if measure == "auto":
        measure, notes = _default_measure(counted or runs)
    usable = [run for run in counted if run.has(measure)]
    found, remark = _baseline(_names("method", usable), baseline)
    if not any(run.has(measure) for run in runs):
        remark = NO_RESULT.format(measure=MEASURES[measure])
    notes += filter(None, [remark])
    methods = sorted(_names("method", runs), key=lambda method: method != found)
    tasks = []
    unscaled = []
    without = []
    for env in _names("env", runs):
        task = _task(env, [run for run in usable if run.env == env], methods, measure=measure, scores=scores)
        tasks.append(task)
        if task.shared and task.scale is None:
            unscaled.append(env)
        if len(task.shared) > 1 and found is not None and found not in task.shared:
            without.append(env)
    if unscaled:
        notes.append(NO_SCALE.format(envs=", ".join(unscaled)))
    if without:
        notes.append(NO_BASELINE.format(name=found, envs=", ".join(without)))
    full_names = {run.method: run.full_name for run in runs}
    for short, full in sorted(full_names.items()):
        if short != full:
            notes.append(f"{short}: {full}.")
    section = Section(algorithm, measure, methods, baseline=found, tasks=tasks, notes=notes)
    everywhere, scaled = section.find_common_methods()
    missing = sorted(set(methods) - set(everywhere))
    if missing and scaled:
        notes.append(
            f"Not in the figures over all environments, because some environment has no counted run: "
            f"{', '.join(missing)}."
        )
    return section


def _baseline(methods: Sequence[str], named: str | None) -> tuple[str | None, str]:
    """Return the baseline, and a remark unless it is `named` or the default; `methods` have counted runs, sorted."""
    if not methods:
        return None, COUNT_ALL
    another = f"--baseline NAME selects another: {'; '.join(methods)}."
    if named in methods:
        return named, ""
    if named:
        return None, f"No run of {named} counts: nothing is shown relative to it. {another}"
    similar = [method for method in methods if UNIFORM.lower() in method.lower()]
    found = min(similar, key=len, default=methods[0])
    if len(methods) == 1:
        return found, f"Only {found} has counted runs: there is nothing to compare it with."
    if found == UNIFORM:
        return found, ""
    return found, f"No run of {UNIFORM} counts: methods are compared with {found}. {another}"


def _default_measure(runs: Sequence[Run]) -> tuple[str, list[str]]:
    """Return the measure that all runs have, and remarks."""
    without = [run for run in runs if not run.has("evaluation")]
    if not without:
        return "evaluation", []
    if len(without) == len(runs):
        return "training", ["No run was evaluated: all returns are those of training episodes, exploration included."]
    names = sorted({f"{run.method} in {run.env}" for run in without})
    return "training", [
        "Training returns are compared, exploration included: some runs have no evaluations "
        f"({', '.join(names)}). --measure evaluation leaves these runs out instead."
    ]


def _task(env: str, usable: Sequence[Run], methods: Sequence[str], measure: str, scores: Scores) -> Task:
    counted: dict[str, list[Run]] = {}
    own: dict[str, Curves] = {}
    few = []
    notes = []
    for method in methods:
        members = [run for run in usable if run.method == method]
        curves = align(members, measure)
        if curves is not None:
            counted[method] = members
            own[method] = curves
            if len(members) < FEW:
                few.append(f"{method} ({len(members)})")
        elif members:
            notes.append(f"{method} is left out: its runs have no steps in common, for example a fork and its parent.")
    if not own:
        return Task(env, {}, {}, counted={}, scale=None, notes=notes)
    shared, end = restrict_to_common_range(own)
    if not shared:
        notes.append("The methods have no steps in common: no tables.")
    elif any(points(run, measure)[0][-1] > end for run in usable):
        shortest = [method for method, curves in own.items() if curves.steps[-1] == end]
        notes.append(
            f"Compared up to {end:,.0f} steps, the last that all runs have: runs of {', '.join(shortest)} end there."
        )
    if few:
        notes.append(f"Intervals from fewer than five runs are too narrow; a single run has none: {', '.join(few)}.")
    return Task(
        env,
        own,
        shared,
        counted=counted,
        scale=find_scale(env, measure, shared, runs=usable, scores=scores),
        notes=notes,
    )


def read_scores(path: Path) -> dict[str, dict[str, float]]:
    """Read returns by environment from a JSON file, in the format of `EXAMPLE`; each key is optional."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"--scores {path} cannot be read: {' '.join(str(error).split())}") from None
    wrong = ""
    try:
        for env, entry in found.items():
            wrong = f": {json.dumps({env: entry})}"
            given = KEYS.issuperset(entry) and all(map(math.isfinite, entry.values()))
            if not given or entry.get("low", -math.inf) >= entry.get("high", math.inf):
                raise ValueError(entry)
    except (AttributeError, TypeError, ValueError):
        raise UsageError(f"--scores {path} does not hold returns by environment{wrong}; expected {EXAMPLE}") from None
    return found


def find_scale(
    env: str, measure: str, shared: Mapping[str, Curves], runs: Sequence[Run], scores: Scores
) -> Scale | None:
    """Return the scale of an environment: as given, or from random actions (0) to the best mean final return (1).

    `shared` holds curves of the methods over the steps that all of them have, of these `runs`. Known returns do
    not apply to success rates. Return None if nothing can be compared, or the best method is not better than the start.
    """
    if not shared:
        return None
    if measure == "success":
        return Scale(0.0, 1.0, scores.threshold, "success rates need no scale")
    low, start = _start(shared, runs)
    best = max(shared, key=lambda method: shared[method].finals().mean())
    high = float(shared[best].finals().mean())
    how = f"0 is {start}, 1 the mean final return of the best method here ({best})"
    given = scores.given.get(env, {})
    low = given.get("low", low)
    high = given.get("high", high)
    if {"low", "high"} & given.keys():
        how = f"as given by --scores; otherwise {how}"
    if not high > low or math.isclose(high, low):
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
