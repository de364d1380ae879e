"""Which figures a report has, and what is in them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pandas as pd

from interreplay.experiments.report.curves import AXES, points
from interreplay.experiments.report.drawing.charts import Cells, Chart, Dot, Figure, Line
from interreplay.experiments.report.sections import MEASURES, Section, Task

# The diagnostics that are drawn; all of them are in diagnostics.csv.
DIAGNOSTICS = {
    "td_error_mean": "mean |TD error| of a batch",
    "same_episode_share": "share of pairs in a batch from one episode (correlation)",
    "mix_mean": "mean λ (1: not blended)",
    "neighbor_distance": "distance to the partner (1: of a random pair)",
    "age_mean": "age of drawn rows, as share of the buffer",
    "weight_ess": "effective sample size of the weights",
    "on_manifold_state_error": "error of blends against the simulator",
    "lag_mean": "age of unrolls' weights in updates",
    "lag_replayed_mean": "age of replayed unrolls' weights in updates",
    "kl_to_behavior": "KL of the policy from the one that acted",
    "rho_mean": "mean V-trace ratio, at most its bound",
    "rho_clipped_share": "share of ratios above the bound",
    "effective_sample_size": "effective sample size of the ratios, as share",
    "kept_share": "share of steps that are learned from (LASER)",
    "learner_waiting_share": "share of time that the learner waited",
    "actors_waiting_share": "share of time that the actors waited",
}
LONGEST_NAME = 80
"""Characters of an id in the name of a file."""
OF_SOURCES = {
    "distance": "distance of {source}'s unrolls in batches",
    "stored_distance": "distance of {source}'s stored unrolls",
    "replays_per_unroll": "draws from {source} per unroll that came",
    "waiting": "unrolls waiting in {source}",
}
"""The same of each source of a mix of unrolls; its name stands before a slash."""


def figures(section: Section, tables: dict[str, pd.DataFrame], statistic: str) -> list[Figure]:
    """Return all figures of an algorithm that there is something for."""
    own = {
        name: table[table["algorithm"] == section.algorithm] if "algorithm" in table else table
        for name, table in tables.items()
    }
    stem = _file_name(section.algorithm.lower())
    improved = IMPROVEMENT.format(baseline=section.baseline)
    found = [
        *(learning(section, own[table], statistic, stem, axis) for axis, table in CURVES.items()),
        Figure(f"{stem}-overview", f"{section.algorithm} in each environment", OVERVIEW, _overview(own["overview"])),
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
    return [replace(figure, table=figure.table or _table(figure.name, stem)) for figure in found if figure.charts]


def _table(name: str, stem: str) -> str:
    """Return the table that a figure is drawn from."""
    kind = name.removeprefix(f"{stem}-").partition("-")[0]
    return {"learning": "curves"}.get(kind, kind)


def _file_name(text: str) -> str:
    """Return an id as a part of a file name; ids of environments may hold slashes and colons."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:LONGEST_NAME]


CURVES = {"env_steps": "curves", "updates": "curves_by_updates", "seconds": "curves_by_time"}
"""The tables that learning curves are drawn from, by their axis."""
OVERVIEW = (
    "Mean normalized returns of the runs that count, over the steps that all methods have: 0 is random actions, 1 the "
    "best method's final return, see the scale below. An empty cell: no run that counts."
)
AGGREGATE = (
    "Dots: interquartile mean of all runs in all environments; lines: 95 % intervals. Returns are normalized, see the "
    "scale below. Where intervals overlap much, the runs do not tell the methods apart."
)
IMPROVEMENT = (
    "How likely a run of the method is better than one of {baseline}, averaged over environments, with 95 % "
    "intervals. One half: no difference."
)
PROFILES = "The share of runs, over all environments, with a normalized final return above τ. Higher is better."
TIME_CAPTION = " Times are comparable only between runs on one kind of machine with the same load."
TIME = (
    "Wall-clock time of training, evaluation included, as the runs reported it. Comparable only between runs on one "
    "kind of machine with the same load."
)


def learning(section: Section, table: pd.DataFrame, statistic: str, stem: str, axis: str = "env_steps") -> Figure:
    """Return one panel per environment."""
    name = {"mean": "Mean", "iqm": "Interquartile mean"}[statistic]
    caption = f"{name} of the runs that count, band: 95 % bootstrap interval. Thin: single runs that do not count."
    charts = []
    for task in section.tasks:
        rows = table[table["env"] == task.env] if len(table) else table
        unit, one = _unit(rows["seconds"].max()) if axis == "seconds" and len(rows) else (AXES[axis], 1.0)
        lines = [
            Line(f"{method} ({part['runs'].iloc[0]})", method, *_xy(part, statistic, axis, one))
            for method in section.methods
            if len(rows) and len(part := rows[rows["method"] == method])
        ]
        lines += _single(task, section.measure, axis, one)
        if lines:
            threshold = task.scale.threshold if task.scale else None
            label = "threshold" if threshold is not None else ""
            charts.append(Chart(task.env, unit, MEASURES[section.measure], lines, mark=threshold, mark_label=label))
    name, over = (f"{stem}-learning", "") if axis == "env_steps" else _over(stem, axis)
    caption += TIME_CAPTION if axis == "seconds" else ""
    return Figure(name, f"{section.algorithm}: learning curves{over}", caption, charts, table=CURVES[axis], axis=axis)


def _over(stem: str, axis: str) -> tuple[str, str]:
    """Return the name of the files of learning curves over another axis, and what their title adds."""
    return f"{stem}-learning-by-{'time' if axis == 'seconds' else axis}", f" by {AXES[axis]}"


def _unit(longest: float) -> tuple[str, float]:
    """Return a unit of time in which a duration in seconds is a number of two or three digits, and its seconds."""
    return ("hours", 3600.0) if longest > 7200 else ("minutes", 60.0) if longest > 120 else ("seconds", 1.0)


def _xy(part: pd.DataFrame, name: str, axis: str, one: float) -> tuple[Any, ...]:
    return part[axis].to_numpy() / one, *(part[column].to_numpy() for column in (name, f"{name}_low", f"{name}_high"))


def _single(task: Task, measure: str, axis: str, one: float) -> list[Line]:
    found = []
    for run in task.aside:
        if not run.repeats and run.has(measure) and run.has(axis):
            x, y = points(run, measure, axis)
            if not len(x):
                continue
            x = x / one
            seed = "" if run.description.seed is None else f"seed {run.description.seed} "
            found.append(Line(f"{seed}{run.state}", run.method, x, y, thin=True))
    return found


def _overview(table: pd.DataFrame) -> list[Chart]:
    """Return cells of environments and methods, where there are several environments."""
    if not len(table) or table["env"].nunique() < 2:
        return []
    charts = []
    for kind, title in (("final", "Final return"), ("auc", "Area under the curve")):
        wide = table.pivot(index="env", columns="method", values=kind)[list(dict.fromkeys(table["method"]))]
        cells = Cells([str(env) for env in wide.index], [str(method) for method in wide.columns], wide.to_numpy())
        charts.append(Chart(f"{title}, normalized", "", cells=cells))
    return charts


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
            for name, title in (DIAGNOSTICS | _of_sources(rows["name"].unique())).items()
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


def _of_sources(names: Iterable[str]) -> dict[str, str]:
    """Return the diagnostics that are drawn of each source, with their titles."""
    found = {}
    for name in names:
        source, _, kind = name.rpartition("/")
        if source and kind in OF_SOURCES:
            found[name] = OF_SOURCES[kind].format(source=source)
    return found


def _time(table: pd.DataFrame) -> list[Chart]:
    charts = []
    for env, rows in table.groupby("env", sort=False) if len(table) else ():
        longest = float(rows["mean"].max())
        unit, seconds = _unit(longest)
        scaled = rows.assign(**{name: rows[name] / seconds for name in ("mean", "low", "high")})
        charts.append(Chart(str(env), "environment steps", unit, _lines(scaled)))
    return charts


def _lines(rows: pd.DataFrame) -> list[Line]:
    columns = ("env_steps", "mean", "low", "high")
    return [
        Line(str(method), str(method), *(part[column].to_numpy() for column in columns))
        for method, part in rows.groupby("method", sort=False)
    ]
