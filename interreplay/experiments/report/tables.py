"""Tables of a report, as written to CSV, and a sentence per comparison."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from interreplay.experiments.process.machine import format_count
from interreplay.experiments.report.curves import SUMMARIES, align
from interreplay.experiments.report.reading import REPLAY, Run
from interreplay.experiments.report.sections import FEW, MEASURES, Section, Task
from interreplay.runs.results.intervals import FLOOR, Array, difference, improvement, interval, iqm, mean, ratio

DECIMALS = 6
"""Decimals of ratios; smaller differences are rounding errors."""


def runs_table(runs: Sequence[Run], sections: Sequence[Section]) -> pd.DataFrame:
    """Return all runs, including those that do not count; area and final return as in `efficiency_table`."""
    values: dict[int, dict[str, float]] = {}
    for _, task in _tasks(sections):
        for method, members in task.counted.items():
            for i, run in enumerate(members):
                values[id(run)] = dict.fromkeys(SUMMARIES, np.nan)
                if method in task.shared:
                    values[id(run)] = {kind: task.shared[method].summary(kind)[i] for kind in SUMMARIES}
    measures = {section.algorithm: section.measure for section in sections}
    rows = []
    for run in runs:
        row = {
            "algorithm": run.algorithm,
            "env": run.env,
            "method": run.method,
            "seed": run.description.seed,
            "state": run.state,
            "counted": id(run) in values,
            "env_steps": run.steps,
            "seconds": np.nan,
            **values.get(id(run), dict.fromkeys(SUMMARIES, np.nan)),
            "note": run.note,
            "folder": str(run.path),
        }
        if len(run.results):
            row["seconds"] = run.results["seconds"].iloc[-1]
        if not run.note and id(run) not in values:
            measure = measures[run.algorithm]
            row["note"] = f"no {MEASURES[measure]}"
            if run.has(measure):
                row["note"] = "no steps in common with the other runs of its method"
        rows.append(row)
    return pd.DataFrame(rows).astype({"seed": "Int64"})


def curves_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return means with intervals, by method and environment steps."""
    frames = []
    for section, task in _tasks(sections):
        for method, own in task.own.items():
            curves = own.thin()
            values = curves.values.T
            columns: dict[str, Any] = {"algorithm": section.algorithm, "env": task.env, "measure": section.measure}
            columns |= {"method": method, "env_steps": curves.steps, "runs": len(curves.values)}
            frames.append(pd.DataFrame(columns | _estimate("mean", mean, [values])))
    return pd.concat(frames or [pd.DataFrame()], ignore_index=True)


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
    row: dict[str, Any] = {"algorithm": section.algorithm, "env": task.env, "method": method}
    row |= {"runs": len(curves.values), "first_step": curves.steps[0], "last_step": curves.steps[-1]}
    for kind in SUMMARIES:
        row |= _estimate(kind, mean, [curves.summary(kind)])
    if scale is not None:
        reached = curves.find_threshold_steps(scale.threshold)
        row["threshold"] = scale.threshold
        row["reached"] = np.isfinite(reached).sum()
        row["steps"] = np.median(reached)
    if base is None or method == section.baseline:
        return row
    for kind in SUMMARIES:
        row |= _estimate(f"{kind}_difference", difference, [curves.summary(kind), base.summary(kind)])
    if scale is not None:
        areas = [scale.normalize(curves.means()), scale.normalize(base.means())]
        if max(map(np.mean, areas)) > FLOOR:
            row |= _estimate("auc_ratio", ratio, areas)
        steps = np.median(base.find_threshold_steps(scale.threshold))
        if np.isfinite(steps) and np.isfinite(row["steps"]):
            row["steps_ratio"] = steps / row["steps"]
    return row


def scale_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return the returns 0 and 1 and the threshold of each environment, and their origin."""
    rows = []
    for section, task in _tasks(sections):
        if task.scale is not None:
            rows.append({"algorithm": section.algorithm, "env": task.env, **vars(task.scale)})
    return pd.DataFrame(rows)


def strata(tasks: Sequence[Task], method: str, kind: str) -> list[Array]:
    """Return the values of a method's runs, one array per environment, normalized if it has a scale."""
    found = []
    for task in tasks:
        values = task.shared[method].summary(kind)
        if task.scale is not None:
            values = task.scale.normalize(values)
        found.append(values)
    return found


def aggregate_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return mean and IQM of normalized values over all environments, and ratios to the baseline."""
    rows = []
    for section in sections:
        methods, tasks = section.find_common_methods()
        for method, kind in itertools.product(methods, SUMMARIES):
            own = strata(tasks, method, kind)
            row: dict[str, Any] = {"algorithm": section.algorithm, "method": method, "measure": kind}
            row |= {"environments": len(tasks), "runs": sum(map(len, own))}
            row |= _estimate("mean", mean, own) | _estimate("iqm", iqm, own)
            if section.baseline in methods and method != section.baseline:
                row |= _estimate("ratio", ratio, own + strata(tasks, section.baseline, kind))
            rows.append(row)
    return pd.DataFrame(rows)


def improvement_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return the probability that a run of a method is better than a run of the baseline."""
    rows = []
    for section in sections:
        methods, tasks = section.find_common_methods(ranked=True)
        if section.baseline not in methods:
            continue
        for method, kind in itertools.product(methods, SUMMARIES):
            if method != section.baseline:
                both = strata(tasks, method, kind) + strata(tasks, section.baseline, kind)
                row = {"algorithm": section.algorithm, "method": method, "baseline": section.baseline, "measure": kind}
                rows.append(row | _estimate("probability", improvement, both))
    return pd.DataFrame(rows)


def diagnostics_table(sections: Sequence[Section]) -> pd.DataFrame:
    """Return the wall-clock time and the diagnostics of the replay buffers, averaged over the runs of a method."""
    frames = []
    for section, task in _tasks(sections):
        for method, runs in task.counted.items():
            names: set[str] = set()
            for run in runs:
                names.update(run.results.columns)
            for column in ["seconds", *sorted(name for name in names if name.startswith(REPLAY))]:
                curves = align(runs, column)
                if curves is not None:
                    curves = curves.thin()
                    columns: dict[str, Any] = {"algorithm": section.algorithm, "env": task.env, "method": method}
                    columns |= {"name": column.removeprefix(REPLAY), "runs": len(curves.values)}
                    columns |= {"env_steps": curves.steps} | _estimate("mean", mean, [curves.values.T])
                    frames.append(pd.DataFrame(columns))
    return pd.concat(frames or [pd.DataFrame()], ignore_index=True)


def _tasks(sections: Sequence[Section]) -> Iterator[tuple[Section, Task]]:
    for section in sections:
        for task in section.tasks:
            yield section, task


def _estimate(name: str, statistic: Callable[..., Any], values: Sequence[Array]) -> dict[str, Any]:
    """Return the columns of a statistic and its 95 % interval."""
    low, high = interval(statistic, values)
    return {name: statistic(*values), f"{name}_low": low, f"{name}_high": high}


TABLES: dict[str, Callable[[Sequence[Section]], pd.DataFrame]] = {
    "curves": curves_table,
    "efficiency": efficiency_table,
    "scale": scale_table,
    "aggregate": aggregate_table,
    "improvement": improvement_table,
    "diagnostics": diagnostics_table,
}


def all_tables(runs: Sequence[Run], sections: Sequence[Section]) -> dict[str, pd.DataFrame]:
    """Return all tables by name."""
    return {"runs": runs_table(runs, sections)} | {name: make(sections) for name, make in TABLES.items()}


def states(runs: pd.DataFrame) -> str:
    """Return how many runs have each state, such as ``9 finished, 1 crashed``."""
    counts = runs["state"].value_counts(sort=False)
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def select(table: pd.DataFrame, **values: str) -> pd.DataFrame:
    """Return the rows with some values; an empty table, which has no columns, is returned unchanged."""
    for name, value in values.items():
        if len(table):
            table = table[table[name] == value]
    return table


def groups(table: pd.DataFrame, *columns: str) -> list[tuple[Any, pd.DataFrame]]:
    """Return the values of columns with their rows, in order of appearance; [] for an empty table."""
    if not len(table):
        return []
    by = columns[0] if len(columns) == 1 else list(columns)
    return list(table.groupby(by, sort=False))


def summaries(section: Section, tables: dict[str, pd.DataFrame]) -> dict[str, list[str]]:
    """Return sentences that compare each method with the baseline.

    If there are several environments with a scale, the first sentence of a method is about all of them together.
    """
    found: dict[str, list[str]] = {}
    counts: dict[tuple[str, str], int] = {}
    for task in section.tasks:
        for method, curves in task.shared.items():
            base = task.shared.get(section.baseline or "", curves)
            counts[task.env, method] = min(len(curves.values), len(base.values))
    environments = [task.env for task in section.tasks if task.scale is not None]

    def add(row: dict[str, Any], subject: str, names: Sequence[str], runs: str, fewest: int) -> None:
        for name in names:  # the first comparison that the row has
            if np.isfinite(row.get(name, np.nan)):
                effect = f"{times(row[name])}x the area of"
                if name == "auc_difference":
                    position = "above" if row[name] >= 0 else "below"
                    effect = f"a mean return over steps {number(abs(row[name]))} {position} that of"
                sentence = f"{subject} has {effect} {section.baseline}, {_evidence(row, name, runs, fewest=fewest)}."
                found.setdefault(row["method"], []).append(sentence)
                return

    for row in select(tables["aggregate"], algorithm=section.algorithm, measure="auc").to_dict("records"):
        if row["environments"] > 1:
            least = min(counts.get((env, row["method"]), 0) for env in environments)
            add(row, row["method"], ["ratio"], f"{row['environments']} environments, {row['runs']} runs", least)
    for row in select(tables["efficiency"], algorithm=section.algorithm).to_dict("records"):
        least = counts[row["env"], row["method"]]
        seeds = format_count(row["runs"] if least >= FEW else least, "seed")
        add(row, f"{row['env']}: {row['method']}", ["auc_ratio", "auc_difference"], seeds, least)
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


def times(value: float) -> str:
    """Return a ratio with two decimals, or with as many as distinguish it from 1; a dash for no number."""
    if not np.isfinite(value):
        return "–"
    value = round(value, DECIMALS)
    digits = 2
    while value != 1 and round(value, digits) == 1:
        digits += 1
    return f"{value:.{digits}f}"


def _evidence(row: dict[str, Any], name: str, runs: str, fewest: int) -> str:
    """Return the interval of a ratio or a difference, and the conclusion.

    `fewest` is the number of runs of the method or the baseline in the environment with the fewest.
    """
    low = row[f"{name}_low"]
    high = row[f"{name}_high"]
    equal = 0.0
    shown = number
    if name.endswith("ratio"):
        low = round(low, DECIMALS)
        high = round(high, DECIMALS)
        equal = 1.0
        shown = times
    if not np.isfinite(low):
        return f"{runs}: too few for an interval"
    if fewest < FEW:
        conclusion = f"too few runs for a conclusion (at least {FEW} per method and environment)"
    elif low > equal:
        conclusion = "an improvement"
    elif high < equal:
        conclusion = "a deterioration"
    else:
        conclusion = "no detectable difference"
    return f"95 % CI {shown(low)} to {shown(high)}, {runs}: {conclusion}"
