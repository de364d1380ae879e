"""The numbers of a report as tables with one row per thing, as they are written to CSV."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from interreplay.experiments.report.curves import Curves, align
from interreplay.experiments.report.reading.results import REPLAY
from interreplay.experiments.report.reading.runs import Run
from interreplay.experiments.report.reading.settings import printable
from interreplay.experiments.report.sections import MEASURES, Section, Task
from interreplay.runs.results.intervals import STATISTICS, Array, difference, improvement, interval, mean, ratio

JUDGED = {"auc": "area under the curve", "final": "final return"}
PROFILE_POINTS = 101


def judged(curves: Curves, kind: str) -> Array:
    """Return of each run what `JUDGED` calls by this name ``(runs,)``."""
    return curves.means() if kind == "auc" else curves.finals()


def runs_table(runs: Sequence[Run], sections: Sequence[Section]) -> pd.DataFrame:
    """Return every run that was found, those that do not count included."""
    counted = {id(run): values for s in sections for task in s.tasks for run, values in _each(task)}
    measures = {section.algorithm: MEASURES[section.measure] for section in sections}
    return pd.DataFrame(
        [
            {
                "algorithm": run.algorithm,
                "env": run.env,
                "method": run.method,
                "seed": run.description.seed,
                "state": run.state,
                "counted": id(run) in counted,
                "env_steps": run.steps,
                "seconds": run.results["seconds"].iloc[-1] if len(run.results) else np.nan,
                **dict(zip(JUDGED, counted.get(id(run), (np.nan, np.nan)), strict=True)),
                "note": run.note or ("" if id(run) in counted else f"no {measures.get(run.algorithm, '')}"),
                "folder": printable(str(run.path)),
            }
            for run in runs
        ]
    ).astype({"seed": "Int64"})


def _each(task: Task) -> Iterator[tuple[Run, tuple[float, float]]]:
    """Yield every run that counts, with what `JUDGED` lists."""
    for method, runs in task.counted.items():
        yield from zip(runs, zip(*(judged(task.own[method], kind) for kind in JUDGED), strict=True), strict=True)


def curves_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return mean and IQM with intervals, by method and steps."""
    return _curves_by("env_steps", sections)


def _curves_by(axis: str, sections: Sequence[Section]) -> pd.DataFrame:
    """Return what `curves_table` does by another axis; of runs that did not report it nothing."""
    return pd.DataFrame([row for section in sections for task in section.tasks for row in _curves(section, task, axis)])


def _curves(section: Section, task: Task, axis: str) -> Iterator[dict[str, Any]]:
    for method, runs in task.counted.items():
        curves = task.own.get(method) if axis == "env_steps" else align(runs, section.measure, axis)
        if curves is None:
            continue
        values = curves.values.T
        found: dict[str, Any] = {axis: curves.steps, "runs": len(curves.values)}
        for name, statistic in STATISTICS.items():
            low, high = interval(statistic, [values])
            found |= {name: statistic(values), f"{name}_low": low, f"{name}_high": high}
        shared = {"algorithm": section.algorithm, "env": task.env, "measure": section.measure, "method": method}
        yield from (shared | row for row in pd.DataFrame(found).to_dict("records"))


def efficiency_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return per environment and method area, final return, steps to the threshold, also relative to the baseline.

    Without a scale of an environment the threshold and the ratios are missing.
    """
    return pd.DataFrame(
        [
            _efficiency(section, task, method)
            for section in sections
            for task in section.tasks
            for method in section.methods
            if method in task.shared
        ]
    )


def _efficiency(section: Section, task: Task, method: str) -> dict[str, Any]:
    curves, scale, base = task.shared[method], task.scale, task.shared.get(section.baseline or "")
    row: dict[str, Any] = {"algorithm": section.algorithm, "env": task.env, "method": method}
    row |= {"runs": len(curves.values), "first_step": task.range[0], "last_step": task.range[1]}
    for kind in JUDGED:
        values = judged(curves, kind)
        low, high = interval(mean, [values])
        row |= {kind: values.mean(), f"{kind}_low": low, f"{kind}_high": high}
    if base is not None:
        for kind in JUDGED:
            ours, theirs = judged(curves, kind), judged(base, kind)
            of_itself = method == section.baseline
            low, high = (np.nan, np.nan) if of_itself else interval(difference, [ours, theirs])
            row |= {f"{kind}_difference": difference(ours, theirs)}
            row |= {f"{kind}_difference_low": low, f"{kind}_difference_high": high}
    if scale is None:
        return row
    reached = curves.reached(scale.threshold)
    row |= {"threshold": scale.threshold, "reached": int(np.isfinite(reached).sum()), "steps": np.median(reached)}
    if base is not None:
        strata = [scale.normalized(c.means()) for c in (curves, base)]
        low, high = (np.nan, np.nan) if method == section.baseline else interval(ratio(1), strata)
        row |= {"auc_ratio": ratio(1)(*strata), "auc_ratio_low": low, "auc_ratio_high": high}
        row["steps_ratio"] = _over(np.median(base.reached(scale.threshold)), np.median(reached))
    return row


def _over(above: float, below: float) -> float:
    return above / below if np.isfinite(above) and np.isfinite(below) and below > 0 else np.nan


def scale_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return what 0, 1 and the threshold are in each environment, and why."""
    return pd.DataFrame(
        [
            {"algorithm": section.algorithm, "env": task.env, **vars(task.scale)}
            for section in sections
            for task in section.tasks
            if task.scale is not None
        ]
    )


def strata(section: Section, method: str, kind: str) -> list[Array]:
    """Return the normalized values of a method's runs, one array per environment that all methods ran in."""
    return [
        task.scale.normalized(judged(task.shared[method], kind))
        for task in section.everywhere()[1]
        if task.scale is not None
    ]


def overview_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return the mean normalized area and final return of every method in every environment with a scale."""
    rows = []
    for section in sections:
        for task in section.tasks:
            for method, curves in task.shared.items() if task.scale is not None else ():
                row: dict[str, Any] = {"algorithm": section.algorithm, "env": task.env, "method": method}
                row |= {"runs": len(curves.values)}
                assert task.scale is not None
                rows.append(row | {kind: task.scale.normalized(judged(curves, kind)).mean() for kind in JUDGED})
    return pd.DataFrame(rows)


def aggregate_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return, over all environments, mean and IQM of the normalized values, and means relative to the baseline's."""
    rows = []
    for section in sections:
        methods, tasks = section.everywhere()
        for method in methods:
            for kind in JUDGED:
                own = strata(section, method, kind)
                row: dict[str, Any] = {"algorithm": section.algorithm, "method": method, "measure": kind}
                row |= {"environments": len(tasks), "runs": sum(map(len, own))}
                for name, statistic in STATISTICS.items():
                    low, high = interval(statistic, own)
                    row |= {name: statistic(*own), f"{name}_low": low, f"{name}_high": high}
                if section.baseline in methods:
                    both = [*own, *strata(section, section.baseline, kind)]
                    of_itself = method == section.baseline
                    low, high = (np.nan, np.nan) if of_itself else interval(ratio(len(tasks)), both)
                    row |= {"ratio": ratio(len(tasks))(*both), "ratio_low": low, "ratio_high": high}
                rows.append(row)
    return pd.DataFrame(rows)


def improvement_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return the probability that a run of a method is better than one of the baseline."""
    rows = []
    for section in sections:
        methods, tasks = section.ranked()
        for method in methods if section.baseline in methods else []:
            if method == section.baseline:
                continue
            for kind in JUDGED:
                compared = (method, str(section.baseline))
                both = [judged(task.shared[name], kind) for name in compared for task in tasks]
                statistic = improvement(len(tasks))
                low, high = interval(statistic, both)
                row = {"algorithm": section.algorithm, "method": method, "baseline": section.baseline, "measure": kind}
                rows.append(row | {"probability": statistic(*both), "low": low, "high": high})
    return pd.DataFrame(rows)


def profile_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return performance profiles: the share of runs whose normalized final return is above τ."""
    frames = []
    for section in sections:
        methods, _ = section.everywhere()
        finals = {method: strata(section, method, "final") for method in methods}
        if not finals:
            continue
        top = max(float(values.max()) for listed in finals.values() for values in listed)
        tau = np.linspace(0.0, max(1.0, top), PROFILE_POINTS)
        for method, listed in finals.items():
            above = [(values > tau[:, None]).astype(float) for values in listed]
            low, high = interval(mean, above)
            found = {"tau": tau, "share": mean(*above), "low": low, "high": high}
            frames.append(pd.DataFrame({"algorithm": section.algorithm, "method": method, **found}))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def diagnostics_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return what the replay buffers reported, averaged over the runs of a method."""
    return _averaged(sections, lambda runs: sorted({c for run in runs for c in run.results if c.startswith(REPLAY)}))


def time_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return seconds of training behind each step, averaged over the runs of a method."""
    return _averaged(sections, lambda runs: ["seconds"])


def _averaged(sections: Sequence[Section], columns: Any) -> pd.DataFrame:
    frames = []
    for section in sections:
        for task in section.tasks:
            for method, runs in task.counted.items():
                for column in columns(runs):
                    curves = align(runs, column)
                    if curves is not None:
                        low, high = interval(mean, [curves.values.T])
                        found = {
                            "env_steps": curves.steps,
                            "mean": curves.values.mean(axis=0),
                            "low": low,
                            "high": high,
                        }
                        named = {"algorithm": section.algorithm, "env": task.env, "method": method}
                        named["name"] = column.removeprefix(REPLAY)
                        frames.append(pd.DataFrame({**named, "runs": len(curves.values), **found}))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


TABLES: dict[str, Callable[[Sequence[Section]], pd.DataFrame]] = {
    "curves": curves_table,
    "curves_by_updates": functools.partial(_curves_by, "updates"),
    "curves_by_time": functools.partial(_curves_by, "seconds"),
    "overview": overview_table,
    "efficiency": efficiency_table,
    "scale": scale_table,
    "aggregate": aggregate_table,
    "improvement": improvement_table,
    "profiles": profile_table,
    "diagnostics": diagnostics_table,
    "time": time_table,
}


def all_tables(runs: Sequence[Run], sections: Sequence[Section]) -> dict[str, pd.DataFrame]:
    """Return every table by its name."""
    return {"runs": runs_table(runs, sections)} | {name: make(sections) for name, make in TABLES.items()}
