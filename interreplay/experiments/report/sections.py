"""Which runs are compared with which: one section per algorithm, one task per environment in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from interreplay.errors import UsageError, accepted_names
from interreplay.experiments.report.curves import Curves, align, together
from interreplay.experiments.report.reading.runs import EMPTY, FINISHED, UNREADABLE, Run
from interreplay.experiments.report.scores import Scale, Scores, find_scale

UNIFORM = "Uniform"
"""The baseline where none is named: the method of this name, or one whose name contains it."""
MEASURES = {"evaluation": "evaluation return", "training": "training return", "success": "success rate"}


@dataclass(frozen=True)
class Task:
    """One environment.

    Attributes:
        env: Its id.
        own: Of each method the curves of its runs that count, over the steps that all of these have.
        shared: The same over the steps that all methods have.
        aside: Runs that are shown and do not count.
        scale: What 0 and 1 are, and the threshold.
        notes: What is to be said of it.
    """

    env: str
    own: Mapping[str, Curves]
    shared: Mapping[str, Curves]
    aside: Sequence[Run]
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
    """One algorithm.

    Attributes:
        algorithm: Its name.
        measure: One of `MEASURES`; the same in all of its figures.
        methods: Those that are compared, the baseline first.
        baseline: None where no run of it counts.
        tasks: One per environment.
        notes: What is to be said of it.
    """

    algorithm: str
    measure: str
    methods: list[str]
    baseline: str | None
    tasks: list[Task]
    notes: list[str] = field(default_factory=list)

    def everywhere(self) -> tuple[list[str], list[Task]]:
        """Return the methods that ran in all environments in which anything can be compared, and these environments."""
        tasks = [task for task in self.tasks if task.shared and task.scale is not None]
        return self._in_all(tasks), tasks

    def ranked(self) -> tuple[list[str], list[Task]]:
        """Return what `everywhere` does; without any scale, all environments: to rank runs requires no scale."""
        methods, tasks = self.everywhere()
        if tasks:
            return methods, tasks
        tasks = [task for task in self.tasks if task.shared]
        return self._in_all(tasks), tasks

    def _in_all(self, tasks: Sequence[Task]) -> list[str]:
        return [m for m in self.methods if tasks and all(m in task.shared for task in tasks)]


def build(
    runs: Sequence[Run], *, baseline: str | None = None, measure: str = "auto", count: str = "finished", scores: Scores
) -> list[Section]:
    """Sort runs into sections.

    Args:
        runs: All runs.
        baseline: The method that others are compared with; None chooses one per algorithm, see `_baseline`.
        measure: One of `MEASURES`, or ``"auto"``: evaluation returns where all runs of an algorithm have them.
        count: ``"finished"`` or ``"all"``, which also counts unfinished and crashed runs as far as they got.
        scores: What is known of the environments.

    Raises:
        UsageError: The baseline is not a method of these runs.
    """
    methods = sorted({run.method for run in runs})
    if baseline is not None and baseline not in methods:
        raise UsageError(f"no run of the baseline {baseline!r}; {accepted_names(baseline, methods)}")
    known = [run for run in runs if run.state not in (EMPTY, UNREADABLE) and len(run.results)]
    sections = []
    for algorithm in sorted({run.algorithm for run in known}):
        members = [run for run in known if run.algorithm == algorithm]
        sections.append(_section(algorithm, members, baseline, measure, count, scores))
    return sections


def counts(run: Run, count: str) -> bool:
    """Return whether a run is part of averages."""
    return not run.repeats and (run.state == FINISHED or count == "all")


def _section(
    algorithm: str, runs: Sequence[Run], baseline: str | None, measure: str, count: str, scores: Scores
) -> Section:
    chosen, notes = _measure(runs, measure, count)
    usable = [run for run in runs if counts(run, count) and run.has(chosen)]
    found, remark = _baseline(sorted({run.method for run in usable}), baseline)
    notes += [remark] if remark else []
    present = sorted({run.method for run in runs}, key=lambda method: (method != found, method))
    tasks = []
    for env in sorted({run.env for run in runs}):
        members = [run for run in runs if run.env == env]
        tasks.append(_task(env, members, present, chosen, count, scores))
    unscaled = [task.env for task in tasks if task.shared and task.scale is None]
    if unscaled:
        notes.append(NO_SCALE.format(envs=", ".join(unscaled)))
    names = {run.method: run.full_name for run in runs if run.method != run.full_name}
    notes += [f"{short} is {full}." for short, full in sorted(names.items())]
    section = Section(algorithm, chosen, present, found, tasks, notes)
    missing = [method for method in present if method not in section.everywhere()[0]]
    if missing and section.everywhere()[1]:
        notes.append(
            f"Not in the figures over all environments, for want of counted runs in some: {', '.join(missing)}."
        )
    return section


NO_SCALE = (
    "No scale in {envs}: no method ends above random play. Normalized returns, ratios and steps to a threshold require "
    "a scale and are left out; returns, their differences and probabilities of improvement do not."
)


def _baseline(methods: Sequence[str], named: str | None) -> tuple[str | None, str]:
    """Return the method that others are compared with, and a remark where it is not the expected one.

    Args:
        methods: Those with runs that count, sorted.
        named: What the user asked for; by default `UNIFORM`, a method whose name contains it, or the first method.
    """
    wanted = named or UNIFORM
    others = [method for method in methods if method != wanted]
    if not methods:
        return None, "No run counts: nothing is compared. --count all also counts unfinished and crashed runs."
    if not others:
        return wanted, f"{wanted} alone has runs that count: there is nothing to compare it with."
    if wanted in methods:
        return wanted, ""
    choice = "--baseline NAME chooses another: "
    if named:
        return None, f"No run of {named} counts: nothing is shown relative to it. {choice}{'; '.join(others)}."
    if len(methods) == 1:
        return methods[0], f"{methods[0]} alone has runs that count: there is nothing to compare it with."
    similar = [method for method in methods if UNIFORM.lower() in method.lower()]
    found = (similar or methods)[0]
    choice += f"{'; '.join(method for method in methods if method != found)}."
    return found, f"No run of {UNIFORM} counts: methods are compared with {found}. {choice}"


def _measure(runs: Sequence[Run], measure: str, count: str) -> tuple[str, list[str]]:
    if measure != "auto":
        return measure, []
    counted = [run for run in runs if counts(run, count)] or list(runs)
    without = [run for run in counted if not run.has("evaluation")]
    if not without:
        return "evaluation", []
    if len(without) == len(counted):
        return "training", ["No run was evaluated: all returns are those of training episodes, exploration included."]
    shown = sorted({f"{run.method} in {run.env}" for run in without})
    return "training", [
        "Training returns are compared, exploration included: some runs have no evaluations "
        f"({', '.join(shown)}). --measure evaluation leaves these out instead."
    ]


def _task(env: str, runs: Sequence[Run], methods: Sequence[str], measure: str, count: str, scores: Scores) -> Task:
    usable = [run for run in runs if counts(run, count) and run.has(measure)]
    counted = {m: [run for run in usable if run.method == m] for m in methods}
    counted = {method: members for method, members in counted.items() if members}
    own = {method: curves for method, members in counted.items() if (curves := align(members, measure))}
    shared, end = together(own) if own else ({}, 0.0)
    notes = []
    longer = [f"{method} to {c.steps[-1]:,.0f}" for method, c in own.items() if c.steps[-1] > end]
    if shared and longer:
        notes.append(f"Compared up to {end:,.0f} steps, the last that all methods have ({', '.join(longer)}).")
    if own and not shared:
        notes.append("The methods have no steps in common: no tables.")
    few = [f"{method} ({len(members)})" for method, members in counted.items() if len(members) < 5]
    single = [method for method, members in counted.items() if len(members) == 1]
    if single:
        notes.append(f"One run only, so no interval: {', '.join(single)}.")
    elif few:
        notes.append(f"Intervals from fewer than five runs are too narrow: {', '.join(few)}.")
    aside = _without(runs, usable)
    scale = find_scale(env, measure, shared, [run for members in counted.values() for run in members], scores)
    return Task(env, own, shared, aside, counted, scale, notes)


def _without(runs: Sequence[Run], usable: Sequence[Run]) -> list[Run]:
    kept = {id(run) for run in usable}
    return [run for run in runs if id(run) not in kept]
