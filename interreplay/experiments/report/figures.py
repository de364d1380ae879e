"""Figures of a report and their captions."""

from __future__ import annotations

import re

import pandas as pd

from interreplay.experiments.report.charts import Chart, Figure, Line, smoothed
from interreplay.experiments.report.curves import AXES, POINTS, points
from interreplay.experiments.report.published import published_lines
from interreplay.experiments.report.sections import MEASURES, Section, Task
from interreplay.experiments.report.tables import groups, select

# Diagnostics with a chart; diagnostics.csv holds all of them.
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
SOURCE_DIAGNOSTICS = {
    "distance": "distance of {source}'s unrolls in batches",
    "stored_distance": "distance of {source}'s stored unrolls",
    "replays_per_unroll": "draws from {source} per new unroll",
    "waiting": "unrolls waiting in {source}",
}
"""Diagnostics of each source in a mix of unrolls, reported as ``source/name``."""
LONGEST_FILE_NAME = 80
LEARNING_TABLES = {"env_steps": "curves", "updates": "curves_by_updates", "seconds": "curves_by_time"}
"""Table of the learning curves over each axis."""
STATISTICS = {"mean": "means", "iqm": "interquartile means"}
MEASURED = {"auc": "Area under the curve", "final": "Final return"}
SAME_MACHINE = "Times are comparable only between runs on the same kind of machine with the same load."
OVERVIEW = (
    "Mean normalized returns of the counted runs, over the steps that all methods have. 0: random actions; 1: the "
    "final return of the best method (see the table of scales). Empty cell: no counted run."
)
AGGREGATE = (
    "Dots: interquartile means of the normalized returns of all runs in all environments. Lines: 95 % bootstrap "
    "intervals. If two intervals overlap widely, the runs show no difference between the methods."
)
IMPROVEMENT = (
    "Dots: probability that a run of the method is better than a run of {baseline}, averaged over environments. "
    "Lines: 95 % bootstrap intervals. Dashed line: no difference."
)
PROFILES = (
    "Lines: share of runs with a normalized final return above τ, over all environments. Bands: 95 % bootstrap "
    "intervals. Higher is better."
)
REPLAY = "Lines: means over the runs of a method. Bands: 95 % bootstrap intervals."
PUBLISHED = (
    "Solid lines: means of the runs of this report, with 95 % bootstrap intervals. Dotted and dash-dotted lines: "
    "published means, with standard deviations over seeds. Protocols differ, see the table."
)
TIME = f"Lines: mean wall-clock time of training, evaluation included. Bands: 95 % bootstrap intervals. {SAME_MACHINE}"


def figures(section: Section, tables: dict[str, pd.DataFrame], statistic: str, smoothing: float) -> list[Figure]:
    """Return all figures of an algorithm that have any content."""
    own = {name: select(table, algorithm=section.algorithm) for name, table in tables.items()}
    name = section.algorithm
    stem = file_name(name.lower())
    found = []
    for axis, table in LEARNING_TABLES.items():
        found.append(learning_curves(section, own[table], statistic, axis, smoothing))
    probability = IMPROVEMENT.format(baseline=section.baseline)
    for kind, title, caption, charts in [
        ("overview", "by environment", OVERVIEW, _overview(own["overview"])),
        ("aggregate", "all environments", AGGREGATE, _aggregate(own["aggregate"])),
        ("improvement", "probability of improvement", probability, _improvement(own["improvement"])),
        ("profiles", "performance profiles", PROFILES, _profiles(own["profiles"])),
        ("time", "wall-clock time", TIME, _time(own["time"])),
    ]:
        found.append(Figure(f"{stem}-{kind}", f"{name}: {title}", caption, charts, table=kind))
    if "published" in tables:
        title = f"{name}: published curves"
        found.append(
            Figure(f"{stem}-published", title, PUBLISHED, _published(section, own["curves"]), table="published")
        )
    found += _diagnostics(name, own["diagnostics"], stem)
    return [figure for figure in found if figure.charts]


def file_name(text: str) -> str:
    """Return an id as a part of a file name; ids of environments can contain slashes and colons."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:LONGEST_FILE_NAME]


def learning_curves(section: Section, table: pd.DataFrame, statistic: str, axis: str, smoothing: float = 0.0) -> Figure:
    """Return learning curves over an axis of `curves.AXES`, one panel per environment."""
    charts = []
    for task in section.tasks:
        rows = select(table, env=task.env)
        unit = AXES[axis]
        scale = 1.0
        if axis == "seconds" and len(rows):
            unit, scale = _time_unit(rows["seconds"].max())
        lines = []
        for method, part in groups(rows, "method"):
            lines.append(
                Line(
                    method=str(method),
                    x=part[axis].to_numpy() / scale,
                    y=smoothed(part[statistic].to_numpy(), smoothing),
                    low=smoothed(part[f"{statistic}_low"].to_numpy(), smoothing),
                    high=smoothed(part[f"{statistic}_high"].to_numpy(), smoothing),
                    runs=int(part["runs"].iloc[0]),
                )
            )
        lines += _seeds(task, section.measure, axis, scale, smoothing)
        if lines:
            threshold = task.scale.threshold if task.scale else None
            charts.append(
                Chart(task.env, unit, MEASURES[section.measure], lines, mark=threshold, mark_label="threshold")
            )
    stem = f"{file_name(section.algorithm.lower())}-learning"
    title = f"{section.algorithm}: learning curves"
    if axis != "env_steps":
        stem += f"-by-{'time' if axis == 'seconds' else axis}"
        title += f" by {AXES[axis]}"
    caption = _learning_caption(charts, statistic)
    if smoothing:
        caption += f" Smoothed with weight {smoothing:g}."
    if axis == "seconds":
        caption += f" {SAME_MACHINE}"
    return Figure(stem, title, caption, charts, table=LEARNING_TABLES[axis], axis=axis)


def _learning_caption(charts: list[Chart], statistic: str) -> str:
    lines: list[Line] = sum((list(chart.lines) for chart in charts), [])
    parts = [f"Thin lines: individual seeds. Thick lines: {STATISTICS[statistic]}."]
    if any(line.low is not None and pd.notna(line.low).any() for line in lines):
        parts.append("Bands: 95 % bootstrap intervals.")
    if any(line.excluded for line in lines):
        parts.append("Lines that end with a cross: runs that do not count.")
    if any(chart.mark is not None for chart in charts):
        parts.append("Dashed gray line: threshold.")
    return " ".join(parts)


def _time_unit(longest: float) -> tuple[str, float]:
    """Return the unit in which a duration in seconds is a short number, and its length in seconds."""
    if longest > 7200:
        return "hours", 3600.0
    if longest > 120:
        return "minutes", 60.0
    return "seconds", 1.0


def _seeds(task: Task, measure: str, axis: str, scale: float, smoothing: float) -> list[Line]:
    """Return a line per run: those that count where there are several of a method, and those that do not."""
    listed = [(run, False) for members in task.counted.values() if len(members) > 1 for run in members]
    listed += [(run, True) for run in task.excluded if not run.repeats]
    lines = []
    for run, excluded in listed:
        if run.has(measure) and run.has(axis):
            x, y = points(run, measure, axis)
            stride = -(-len(x) // POINTS) or 1
            if len(x):
                lines.append(Line(run.method, x[::stride] / scale, smoothed(y, smoothing)[::stride], excluded=excluded))
    return lines


def _overview(table: pd.DataFrame) -> list[Chart]:
    """Return heat maps of environments and methods if there are several environments."""
    if not len(table) or table["env"].nunique() < 2:
        return []
    charts = []
    for kind, title in reversed(MEASURED.items()):
        wide = table.pivot(index="env", columns="method", values=kind)[list(dict.fromkeys(table["method"]))]
        charts.append(Chart(f"{title}, normalized", "", cells=wide))
    return charts


def _aggregate(table: pd.DataFrame) -> list[Chart]:
    charts = []
    for kind, rows in groups(table, "measure"):
        dots = rows[["method", "iqm", "iqm_low", "iqm_high"]]
        charts.append(Chart(MEASURED[kind], "normalized IQM", dots=dots))
    return charts


def _improvement(table: pd.DataFrame) -> list[Chart]:
    charts = []
    for kind, rows in groups(table, "measure"):
        dots = rows[["method", "probability", "low", "high"]]
        x = f"P(better than {table['baseline'].iloc[0]})"
        charts.append(Chart(MEASURED[kind], x, dots=dots, mark=0.5, range=(-0.02, 1.02)))
    return charts


def _profiles(table: pd.DataFrame) -> list[Chart]:
    if not len(table):
        return []
    lines = _lines(table, x="tau", y="share")
    return [Chart("All environments", "normalized final return τ", "share of runs above τ", lines)]


def _diagnostics(algorithm: str, table: pd.DataFrame, stem: str) -> list[Figure]:
    found = []
    for env, rows in groups(table, "env"):
        titles = dict(DIAGNOSTICS)
        for name in rows["name"].unique():
            source, _, kind = name.rpartition("/")
            if source and kind in SOURCE_DIAGNOSTICS:
                titles[name] = SOURCE_DIAGNOSTICS[kind].format(source=source)
        charts = []
        for name, title in titles.items():
            lines = _lines(rows[rows["name"] == name])
            if lines:
                charts.append(Chart(title, AXES["env_steps"], "", lines))
        name = f"{stem}-diagnostics-{file_name(str(env))}"
        found.append(Figure(name, f"{algorithm}: replay in {env}", REPLAY, charts, folded=True, table="diagnostics"))
    return found


def _published(section: Section, table: pd.DataFrame) -> list[Chart]:
    charts = []
    for task in section.tasks:
        lines = published_lines(task)
        if lines:
            names = {"mean_low": "low", "mean_high": "high"}
            lines += _lines(select(table, env=task.env).rename(columns=names))
            charts.append(Chart(task.env, AXES["env_steps"], MEASURES[section.measure], lines))
    return charts


def _time(table: pd.DataFrame) -> list[Chart]:
    charts = []
    for env, rows in groups(table, "env"):
        unit, seconds = _time_unit(float(rows["mean"].max()))
        columns = ["mean", "low", "high"]
        scaled = rows.assign(**{name: rows[name] / seconds for name in columns})
        charts.append(Chart(str(env), AXES["env_steps"], unit, _lines(scaled)))
    return charts


def _lines(rows: pd.DataFrame, x: str = "env_steps", y: str = "mean") -> list[Line]:
    lines = []
    for method, part in groups(rows, "method"):
        low = part["low"].to_numpy()
        high = part["high"].to_numpy()
        runs = int(part["runs"].iloc[0])
        lines.append(Line(str(method), x=part[x].to_numpy(), y=part[y].to_numpy(), low=low, high=high, runs=runs))
    return lines
