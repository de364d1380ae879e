"""Tables of a report, as written to CSV, and a sentence per comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from interreplay.experiments.process.machine import counted
from interreplay.experiments.report.curves import SUMMARIES, align
from interreplay.experiments.report.reading.results import REPLAY
from interreplay.experiments.report.reading.runs import Run
from interreplay.experiments.report.reading.settings import printable
from interreplay.experiments.report.sections import MEASURES, Section, Task
from interreplay.runs.results.intervals import STATISTICS, Array, difference, improvement, interval, mean, ratio

PROFILE_POINTS = 101


def runs_table(runs: Sequence[Run], sections: Sequence[Section]) -> pd.DataFrame:
    """Return all runs, including those that do not count."""
    values: dict[int, dict[str, float]] = {}
    for section in sections:
        for task in section.tasks:
            for method, members in task.counted.items():
                summary = pd.DataFrame({kind: task.own[method].summary(kind) for kind in SUMMARIES})
                values |= dict(zip(map(id, members), summary.to_dict("records"), strict=True))
    measures = {section.algorithm: MEASURES[section.measure] for section in sections}
    rows = []
    for run in runs:
        missing = "" if id(run) in values else f"no {measures.get(run.algorithm, '')}"
        rows.append(
            {
                "algorithm": run.algorithm,
                "env": run.env,
                "method": run.method,
                "seed": run.description.seed,
                "state": run.state,
                "counted": id(run) in values,
                "env_steps": run.steps,
                "seconds": run.results["seconds"].iloc[-1] if len(run.results) else np.nan,
                **values.get(id(run), dict.fromkeys(SUMMARIES, np.nan)),
                "note": run.note or missing,
                "folder": printable(str(run.path)),
            }
        )
    return pd.DataFrame(rows).astype({"seed": "Int64"})


def curves_table(sections: Sequence[Section], axis: str = "env_steps") -> pd.DataFrame:
    """Return mean and IQM with intervals, by method and position on an axis of `curves.AXES`."""
    frames = []
    for section, task in _tasks(sections):
        for method, runs in task.counted.items():
            curves = task.own.get(method) if axis == "env_steps" else align(runs, section.measure, axis)
            if curves is None:
                continue
            values = curves.values.T
            columns: dict[str, Any] = {"algorithm": section.algorithm, "env": task.env, "measure": section.measure}
            columns |= {"method": method, axis: curves.steps, "runs": len(curves.values)}
            for name, statistic in STATISTICS.items():
                columns |= _with_interval(name, statistic(values), interval(statistic, [values]))
            frames.append(pd.DataFrame(columns))
    return _joined(frames)


def efficiency_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return area, final return and steps to the threshold by environment and method, also relative to the baseline.

    Without a scale of an environment, the threshold and the ratios are missing.
    """
    rows = []
    for section, task in _tasks(sections):
        for method in section.methods:
            if method in task.shared:
                rows.append(_efficiency(section, task, method))
    return pd.DataFrame(rows)


def _efficiency(section: Section, task: Task, method: str) -> dict[str, Any]:
    curves = task.shared[method]
    scale = task.scale
    base = task.shared.get(section.baseline or "")
    is_baseline = method == section.baseline
    row: dict[str, Any] = {"algorithm": section.algorithm, "env": task.env, "method": method}
    row |= {"runs": len(curves.values), "first_step": task.range[0], "last_step": task.range[1]}
    for kind in SUMMARIES:
        values = curves.summary(kind)
        row |= _with_interval(kind, values.mean(), interval(mean, [values]))
    if base is not None:
        for kind in SUMMARIES:
            both = [curves.summary(kind), base.summary(kind)]
            bounds = None if is_baseline else interval(difference, both)
            row |= _with_interval(f"{kind}_difference", difference(both[0], both[1]), bounds)
    if scale is None:
        return row
    reached = curves.reached(scale.threshold)
    steps = float(np.median(reached))
    row |= {"threshold": scale.threshold, "reached": int(np.isfinite(reached).sum()), "steps": steps}
    if base is not None:
        both = [scale.normalized(curves.means()), scale.normalized(base.means())]
        bounds = None if is_baseline else interval(ratio(1), both)
        row |= _with_interval("auc_ratio", ratio(1)(*both), bounds)
        base_steps = float(np.median(base.reached(scale.threshold)))
        comparable = np.isfinite(steps) and np.isfinite(base_steps) and steps > 0
        row["steps_ratio"] = base_steps / steps if comparable else np.nan
    return row


def scale_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return the returns 0 and 1 and the threshold of each environment, and their origin."""
    rows = []
    for section, task in _tasks(sections):
        if task.scale is not None:
            rows.append({"algorithm": section.algorithm, "env": task.env, **vars(task.scale)})
    return pd.DataFrame(rows)


def overview_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return the mean normalized area and final return of every method in every environment with a scale."""
    rows = []
    for section, task in _tasks(sections):
        if task.scale is None:
            continue
        for method, curves in task.shared.items():
            row: dict[str, Any] = {"algorithm": section.algorithm, "env": task.env, "method": method}
            row["runs"] = len(curves.values)
            for kind in SUMMARIES:
                row[kind] = task.scale.normalized(curves.summary(kind)).mean()
            rows.append(row)
    return pd.DataFrame(rows)


def strata(section: Section, method: str, kind: str) -> list[Array]:
    """Return the normalized values of a method's runs, one array per environment that all methods ran in."""
    found = []
    for task in section.everywhere()[1]:
        if task.scale is not None:
            found.append(task.scale.normalized(task.shared[method].summary(kind)))
    return found


def aggregate_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return mean and IQM of normalized values over all environments, and means relative to the baseline."""
    rows = []
    for section in sections:
        methods, tasks = section.everywhere()
        for method in methods:
            for kind in SUMMARIES:
                own = strata(section, method, kind)
                row: dict[str, Any] = {"algorithm": section.algorithm, "method": method, "measure": kind}
                row |= {"environments": len(tasks), "runs": sum(map(len, own))}
                for name, statistic in STATISTICS.items():
                    row |= _with_interval(name, statistic(*own), interval(statistic, own))
                if section.baseline in methods:
                    both = [*own, *strata(section, section.baseline, kind)]
                    statistic = ratio(len(tasks))
                    bounds = None if method == section.baseline else interval(statistic, both)
                    row |= _with_interval("ratio", statistic(*both), bounds)
                rows.append(row)
    return pd.DataFrame(rows)


def improvement_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return the probability that a run of a method is better than a run of the baseline."""
    rows = []
    for section in sections:
        methods, tasks = section.ranked()
        if section.baseline not in methods:
            continue
        for method in methods:
            if method == section.baseline:
                continue
            for kind in SUMMARIES:
                both = [task.shared[name].summary(kind) for name in (method, section.baseline) for task in tasks]
                statistic = improvement(len(tasks))
                low, high = interval(statistic, both)
                row = {"algorithm": section.algorithm, "method": method, "baseline": section.baseline, "measure": kind}
                rows.append(row | {"probability": statistic(*both), "low": low, "high": high})
    return pd.DataFrame(rows)


def profile_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return performance profiles: the share of runs with a normalized final return above τ."""
    frames = []
    for section in sections:
        finals = {method: strata(section, method, "final") for method in section.everywhere()[0]}
        if not finals:
            continue
        top = np.concatenate([values for listed in finals.values() for values in listed]).max()
        tau = np.linspace(0.0, max(1.0, top), PROFILE_POINTS)
        for method, listed in finals.items():
            above = [(values > tau[:, None]).astype(float) for values in listed]
            low, high = interval(mean, above)
            columns = {"algorithm": section.algorithm, "method": method, "runs": sum(map(len, listed)), "tau": tau}
            frames.append(pd.DataFrame({**columns, "share": mean(*above), "low": low, "high": high}))
    return _joined(frames)


def diagnostics_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return the diagnostics of the replay buffers, averaged over the runs of a method."""
    frames = []
    for section, task in _tasks(sections):
        for method, runs in task.counted.items():
            columns = set().union(*(run.results.columns for run in runs))
            for column in sorted(columns):
                if column.startswith(REPLAY):
                    frames.append(_averaged(section, task, method, column))
    return _joined(frames)


def time_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return the seconds of training until each step, averaged over the runs of a method."""
    frames = []
    for section, task in _tasks(sections):
        frames += [_averaged(section, task, method, "seconds") for method in task.counted]
    return _joined(frames)


def _averaged(section: Section, task: Task, method: str, column: str) -> pd.DataFrame:
    """Return the mean of a column over the runs of a method, by environment steps."""
    curves = align(task.counted[method], column)
    if curves is None:
        return pd.DataFrame()
    low, high = interval(mean, [curves.values.T])
    columns: dict[str, Any] = {"algorithm": section.algorithm, "env": task.env, "method": method}
    columns |= {"name": column.removeprefix(REPLAY), "runs": len(curves.values), "env_steps": curves.steps}
    return pd.DataFrame({**columns, "mean": curves.values.mean(axis=0), "low": low, "high": high})


def _tasks(sections: Sequence[Section]) -> list[tuple[Section, Task]]:
    return [(section, task) for section in sections for task in section.tasks]


def _with_interval(name: str, value: Any, bounds: tuple[Any, Any] | None) -> dict[str, Any]:
    """Return the columns of a value and its interval; NaN for no interval."""
    low, high = bounds or (np.nan, np.nan)
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def _joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    frames = [frame for frame in frames if len(frame)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


TABLES: dict[str, Callable[[Sequence[Section]], pd.DataFrame]] = {
    "curves": curves_table,
    "curves_by_updates": lambda sections: curves_table(sections, "updates"),
    "curves_by_time": lambda sections: curves_table(sections, "seconds"),
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
    """Return all tables by name."""
    return {"runs": runs_table(runs, sections)} | {name: make(sections) for name, make in TABLES.items()}


def select(table: pd.DataFrame, **values: str) -> pd.DataFrame:
    """Return the rows with some values; an empty table, which has no columns, is returned unchanged."""
    for name, value in values.items():
        if len(table):
            table = table[table[name] == value]
    return table


def groups(table: pd.DataFrame, *columns: str) -> list[tuple[Any, pd.DataFrame]]:
    """Return the values of columns with their rows, in order of appearance; none of an empty table."""
    if not len(table):
        return []
    return list(table.groupby(list(columns) if len(columns) > 1 else columns[0], sort=False))


def summaries(section: Section, tables: dict[str, pd.DataFrame]) -> dict[str, list[str]]:
    """Return sentences that compare each method with the baseline.

    If there are several environments with a scale, the first sentence of a method is about all of them together.
    """
    found: dict[str, list[str]] = {}
    baseline = section.baseline
    if baseline is None:
        return found
    for method in section.methods:
        if method == baseline:
            continue
        sentences = []
        aggregate = select(tables["aggregate"], algorithm=section.algorithm, method=method, measure="auc")
        for row in aggregate.to_dict("records"):
            if row["environments"] > 1:
                evidence = f"{row['environments']} environments, {row['runs']} runs"
                sentences.append(_ratio_sentence(method, baseline, row, "ratio", evidence))
        efficiency = select(tables["efficiency"], algorithm=section.algorithm, method=method)
        for row in efficiency.to_dict("records"):
            seeds = counted(row["runs"], "seed")
            subject = f"{row['env']}: {method}"
            if np.isfinite(row.get("auc_ratio", np.nan)):
                sentences.append(_ratio_sentence(subject, baseline, row, "auc_ratio", seeds))
            elif np.isfinite(row.get("auc_difference", np.nan)):
                value = row["auc_difference"]
                low = row["auc_difference_low"]
                high = row["auc_difference_high"]
                position = "above" if value >= 0 else "below"
                sentences.append(
                    f"{subject} has a mean return over steps {number(abs(value))} {position} that of "
                    f"{baseline}, {_evidence(low, high, 0.0, number, seeds)}."
                )
        if sentences:
            found[method] = sentences
    return found


def number(value: Any) -> str:
    """Return a number with at least three significant digits and a typographic minus; a dash for no number."""
    if value is None or not np.isfinite(value):
        return "–"
    size = abs(value)
    if size >= 1000:
        text = f"{value:,.0f}"
    elif size >= 100:
        text = f"{value:,.1f}"
    else:
        text = f"{value:#.3g}".rstrip(".")
    return text.replace("-", "−")


def _ratio_sentence(subject: str, baseline: str, row: dict[str, Any], name: str, runs: str) -> str:
    evidence = _evidence(row[f"{name}_low"], row[f"{name}_high"], 1.0, "{:.2f}".format, runs)
    return f"{subject} has {row[name]:.2f}x the area of {baseline}, {evidence}."


def _evidence(low: float, high: float, equal: float, shown: Callable[[float], str], runs: str) -> str:
    """Return the interval and the conclusion of a comparison; `equal` is the value of no difference."""
    if not np.isfinite(low):
        return f"{runs}: too few for an interval"
    if low > equal:
        conclusion = "an improvement"
    elif high < equal:
        conclusion = "a deterioration"
    else:
        conclusion = "no detectable difference"
    return f"95 % CI {shown(low)} to {shown(high)}, {runs}: {conclusion}"
