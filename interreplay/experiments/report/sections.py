"""Group runs for comparison: one section per algorithm, with one task per environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from interreplay.errors import UsageError, accepted_names
from interreplay.experiments.report.curves import Curves, align, restrict_to_common_range
from interreplay.experiments.report.reading.runs import FINISHED, Run
from interreplay.experiments.report.scores import Scale, Scores, find_scale

UNIFORM = "Uniform"
"""Name of the default baseline."""
MEASURES = {"evaluation": "evaluation return", "training": "training return", "success": "success rate"}
FEW = 5
"""Intervals from fewer runs are too narrow, so that they permit no conclusion."""
NO_SCALE = (
    "No scale in {envs}: no method ends above random play. Normalized returns, ratios and steps to a threshold require "
    "a scale and are left out; returns, their differences and probabilities of improvement do not."
)
COUNT_ALL = "No run counts: nothing is compared. --count all also counts unfinished and crashed runs."
NO_RESULT = "Runs have no {measure}: nothing is compared. --measure selects another result."


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

    @property
    def range(self) -> tuple[float, float]:
        """The first and the last step that all methods have."""
        steps = next(iter(self.shared.values())).steps
        return float(steps[0]), float(steps[-1])


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

    def find_common_methods(self) -> tuple[list[str], list[Task]]:
        """Return the methods that have counted runs in all environments with a scale, and these environments."""
        return self._find_common([task for task in self.tasks if task.scale is not None])

    def find_ranked_methods(self) -> tuple[list[str], list[Task]]:
        """Return the result of `find_common_methods`, or without any scale all environments: ranks require no scale."""
        methods, tasks = self.find_common_methods()
        if tasks:
            return methods, tasks
        return self._find_common([task for task in self.tasks if task.shared])

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

    def _find_common(self, tasks: list[Task]) -> tuple[list[str], list[Task]]:
        """Return the methods that all given tasks have, and the tasks."""
        methods = list(self.methods if tasks else ())
        for task in tasks:
            methods = list(filter(task.shared.__contains__, methods))
        return methods, tasks


def build(
    runs: Sequence[Run], *, baseline: str | None = None, measure: str = "auto", count: str = "finished", scores: Scores
) -> list[Section]:
    """Group runs by algorithm and environment.

    Args:
        runs: All runs.
        baseline: Method that the others are compared with. None selects one per algorithm: Uniform, else a method
            with Uniform in its name, else the first.
        measure: One of `MEASURES`, or ``"auto"``: evaluation returns if all runs of an algorithm have them, else
            training returns.
        count: ``"finished"``, or ``"all"`` to count unfinished and crashed runs as well.
        scores: Known returns of the environments.

    Raises:
        UsageError: The baseline is not a method of these runs.
    """
    methods = _names("method", runs)
    if baseline is not None and baseline not in methods:
        raise UsageError(f"no run of the baseline {baseline!r}; {accepted_names(baseline, methods)}")
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
    return sorted(set(map(attrgetter(attribute), runs)))


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
    for env in _names("env", runs):
        task = _task(env, [run for run in usable if run.env == env], methods, measure=measure, scores=scores)
        tasks.append(task)
        if task.shared and task.scale is None:
            unscaled.append(env)
    if unscaled:
        notes.append(NO_SCALE.format(envs=", ".join(unscaled)))
    full_names = dict(map(attrgetter("method", "full_name"), runs))
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
    for method in methods:
        members = [run for run in usable if run.method == method]
        curves = align(members, measure)
        if curves is not None:
            counted[method] = members
            own[method] = curves
            if len(members) < FEW:
                few.append(f"{method} ({len(members)})")
    if not own:
        return Task(env, {}, {}, counted={}, scale=None)
    shared, end = restrict_to_common_range(own)
    notes = []
    if not shared:
        notes.append("The methods have no steps in common: no tables.")
    elif any(own[method].steps[-1] > end for method in own):
        notes.append(f"Compared up to {end:,.0f} steps, the last that all methods have.")
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
