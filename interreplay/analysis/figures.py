"""Which figures a report has, and what is in them."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from interreplay.analysis.curves import points
from interreplay.analysis.drawing.charts import Chart, Dot, Figure, Line
from interreplay.analysis.sections import MEASURES, Section, Task

# The diagnostics that are drawn; all of them are in diagnostics.csv.
DIAGNOSTICS = {
    "td_error_mean": "mean |TD error| of a batch",
    "same_episode_share": "share of pairs in a batch from one episode (correlation)",
    "mix_mean": "mean λ (1: not blended)",
    "neighbor_distance": "distance to the partner (1: of a random pair)",
    "age_mean": "age of drawn rows, as share of the buffer",
    "weight_ess": "effective sample size of the weights",
    "on_manifold_state_error": "error of blends against the simulator",
}


def figures(section: Section, tables: dict[str, pd.DataFrame], statistic: str) -> list[Figure]:
    """Return all figures of an algorithm that there is something for."""
    own = {
        name: table[table["algorithm"] == section.algorithm] if "algorithm" in table else table
        for name, table in tables.items()
    }
    stem = _file_name(section.algorithm.lower())
    improved = IMPROVEMENT.format(baseline=section.baseline)
    found = [
        learning(section, own["curves"], statistic, stem),
        Figure(
            f"{stem}-aggregate",
            f"{section.algorithm} over all environments",
            AGGREGATE,
            _aggregate(section, own["aggregate"]),
        ),
        Figure(
            f"{stem}-improvement",
            f"{section.algorithm}: probability of improvement",
            improved,
            _improvement(own["improvement"]),
        ),
        Figure(f"{stem}-profiles", f"{section.algorithm}: performance profiles", PROFILES, _profiles(own["profiles"])),
        *_diagnostics(section.algorithm, own["diagnostics"], stem),
        Figure(f"{stem}-time", f"{section.algorithm}: time against steps", TIME, _time(own["time"])),
    ]
    return [figure for figure in found if figure.charts]


def _file_name(text: str) -> str:
    """Return an id as a file name; ids of environments may hold slashes and colons."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)


AGGREGATE = (
    "Dots: interquartile mean of all runs in all environments; lines: 95 % intervals. Returns are normalized, see the "
    "scale below. Where intervals overlap much, the runs do not tell the methods apart."
)
IMPROVEMENT = (
    "How likely a run of the method is better than one of {baseline}, averaged over environments, with 95 % "
    "intervals. One half: no difference."
)
PROFILES = "The share of runs, over all environments, with a normalized final return above τ. Higher is better."
TIME = (
    "Wall-clock time of training, evaluation included, as the runs reported it. Comparable only between runs on one "
    "kind of machine with the same load."
)


def learning(section: Section, table: pd.DataFrame, statistic: str, stem: str) -> Figure:
    """Return one panel per environment."""
    name = {"mean": "Mean", "iqm": "Interquartile mean"}[statistic]
    caption = f"{name} of the runs that count, band: 95 % bootstrap interval. Thin: single runs that do not count."
    charts = []
    for task in section.tasks:
        rows = table[table["env"] == task.env] if len(table) else table
        lines = [
            Line(f"{method} ({part['runs'].iloc[0]})", method, *_xy(part, statistic))
            for method in section.methods
            if len(rows) and len(part := rows[rows["method"] == method])
        ]
        lines += _single(task, section.measure)
        if lines:
            threshold = task.scale.threshold if task.scale else None
            label = "threshold" if threshold is not None else ""
            y = MEASURES[section.measure]
            charts.append(Chart(task.env, "environment steps", y, lines, mark=threshold, mark_label=label))
    return Figure(f"{stem}-learning", f"{section.algorithm}: learning curves", caption, charts)


def _xy(part: pd.DataFrame, name: str) -> tuple[Any, ...]:
    columns = ["env_steps", name, f"{name}_low", f"{name}_high"]
    return tuple(part[column].to_numpy() for column in columns)


def _single(task: Task, measure: str) -> list[Line]:
    found = []
    for run in task.aside:
        if not run.repeats and run.has(measure):
            x, y = points(run, measure)
            seed = "" if run.description.seed is None else f"seed {run.description.seed} "
            found.append(Line(f"{seed}{run.state}", run.method, x, y, thin=True))
    return found


def _aggregate(section: Section, table: pd.DataFrame) -> list[Chart]:
    charts = []
    for kind, title in (("auc", "Area under the curve"), ("final", "Final return")):
        rows = table[table["measure"] == kind] if len(table) else table
        dots = [Dot(row.method, row.method, row.iqm, row.iqm_low, row.iqm_high) for row in rows.itertuples()]
        if dots:
            charts.append(Chart(title, "normalized IQM", dots=dots))
    return charts


def _improvement(table: pd.DataFrame) -> list[Chart]:
    charts = []
    for kind, title in (("auc", "Area under the curve"), ("final", "Final return")):
        rows = table[table["measure"] == kind] if len(table) else table
        dots = [Dot(row.method, row.method, row.probability, row.low, row.high) for row in rows.itertuples()]
        if dots:
            baseline = rows["baseline"].iloc[0]
            x = f"P(better than {baseline})"
            charts.append(Chart(title, x, dots=dots, mark=0.5, mark_label="no difference", range=(-0.02, 1.02)))
    return charts


def _profiles(table: pd.DataFrame) -> list[Chart]:
    lines = [
        Line(str(method), str(method), part["tau"].to_numpy(), *(part[c].to_numpy() for c in ("share", "low", "high")))
        for method, part in (table.groupby("method", sort=False) if len(table) else ())
    ]
    return [Chart("All environments", "normalized final return τ", "share of runs above τ", lines)] if lines else []


def _diagnostics(algorithm: str, table: pd.DataFrame, stem: str) -> list[Figure]:
    caption = "Means over the runs of a method and over the batches that were looked at; bands: 95 % intervals."
    found = []
    for env, rows in table.groupby("env", sort=False) if len(table) else ():
        charts = [
            Chart(title, "environment steps", "", lines)
            for name, title in DIAGNOSTICS.items()
            if (lines := _lines(rows[rows["name"] == name]))
        ]
        found.append(
            Figure(
                f"{stem}-diagnostics-{_file_name(str(env))}",
                f"{algorithm}: what replay did in {env}",
                caption,
                charts,
                folded=True,
            )
        )
    return found


def _time(table: pd.DataFrame) -> list[Chart]:
    charts = []
    for env, rows in table.groupby("env", sort=False) if len(table) else ():
        longest = float(rows["mean"].max())
        unit, seconds = ("hours", 3600) if longest > 7200 else ("minutes", 60) if longest > 120 else ("seconds", 1)
        scaled = rows.assign(**{name: rows[name] / seconds for name in ("mean", "low", "high")})
        charts.append(Chart(str(env), "environment steps", unit, _lines(scaled)))
    return charts


def _lines(rows: pd.DataFrame) -> list[Line]:
    columns = ("env_steps", "mean", "low", "high")
    return [
        Line(str(method), str(method), *(part[column].to_numpy() for column in columns))
        for method, part in rows.groupby("method", sort=False)
    ]
