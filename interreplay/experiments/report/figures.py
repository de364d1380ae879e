"""Figures of a report as data, independent of the library that draws them, and their captions."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from interreplay.experiments.process.machine import format_count
from interreplay.experiments.report.curves import POINTS, SUMMARIES, points
from interreplay.experiments.report.published import published_curves
from interreplay.experiments.report.sections import MEASURES, Section
from interreplay.experiments.report.tables import groups, select

# Colors of Okabe and Ito without yellow and black, which fade on light or dark backgrounds; the blue is lighter.
COLORS = ("#1F83C4", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("solid", "dashed", "dotted", "dashdot")
BASELINE_COLOR = "#7F7F7F"

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
    # of each source in a mix of unrolls, reported as source/name
    "distance": "distance of {source}'s unrolls in batches",
    "stored_distance": "distance of {source}'s stored unrolls",
    "replays_per_unroll": "draws from {source} per new unroll",
    "waiting": "unrolls waiting in {source}",
}
TIME = "seconds"
STEPS = "environment steps"
LONGEST_FILE_NAME = 80
INTERVALS = "Bands: 95 % bootstrap intervals."
LEARNING = f"Thin lines: individual seeds. Thick lines: means. {INTERVALS} Dashed gray line: threshold."
AGGREGATE = (
    "Dots: interquartile means of the normalized returns of all runs in all environments. Lines: 95 % bootstrap "
    "intervals. If two intervals overlap widely, the runs show no difference between the methods."
)
IMPROVEMENT = (
    "Dots: probability that a run of the method is better than a run of {baseline}, averaged over environments. "
    "Lines: 95 % bootstrap intervals. Dashed line: no difference."
)
MEANS = f"Lines: means over the runs of a method. {INTERVALS}"
PUBLISHED = (
    "Solid lines: means of the runs of this report, with 95 % bootstrap intervals. Dotted and dash-dotted lines: "
    "published means, with standard deviations over seeds. Protocols differ, see the table."
)
SAME_MACHINE = "Times are comparable only between runs on the same kind of machine with the same load."


Styles = dict[str, tuple[str, str]]
"""Color and dash of each method."""


@dataclass(frozen=True)
class Line:
    """A curve ``(t,)`` of a method, with a band between `low` and `high` ``(t,)``.

    A mean has the number of its runs; a single run has 0, and is drawn thin.
    """

    method: str
    x: Any
    y: Any
    low: Any = None
    high: Any = None
    runs: int = 0


@dataclass(frozen=True)
class Chart:
    """One panel with lines, or with dots below each other: rows of a method, its value, and the ends of its interval.

    `mark` is the value of a line across the panel: horizontal with `lines`, vertical with `dots`. Without a `range`,
    the horizontal axis fits the values.
    """

    title: str
    x: str
    y: str = ""
    lines: Sequence[Line] = ()
    dots: pd.DataFrame | None = None
    mark: float | None = None
    range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Figure:
    """Panels that share a caption and a legend.

    Its files are called `name`, and the CSV file with its numbers `table`. The page hides a folded figure until a
    reader opens it.
    """

    name: str
    title: str
    caption: str
    charts: list[Chart] = field(default_factory=list)
    folded: bool = False
    table: str = ""

    def legend(self) -> dict[str, str]:
        """Return the label of each method that is drawn as lines, with its number of runs."""
        labels: dict[str, str] = {}
        most: dict[str, int] = {}
        for chart in self.charts:
            for line in chart.lines:
                most[line.method] = max(line.runs, most.get(line.method, 0))
                labels[line.method] = f"{line.method} ({format_count(most[line.method], 'run')})"
        return labels


def styles(methods: Sequence[str], baselines: Collection[str | None], published: Sequence[str] = ()) -> Styles:
    """Return the color and dash of each method for all figures; baselines come first and are gray.

    Published curves come last and are dotted or dash-dotted.
    """
    found: Styles = {}
    others = []
    for method in sorted(methods):
        if method in baselines:
            found[method] = (BASELINE_COLOR, "solid")
        else:
            others.append(method)
    for i, method in enumerate(others):
        found[method] = (COLORS[i % len(COLORS)], DASHES[i // len(COLORS) % len(DASHES)])
    for i, method in enumerate(sorted(published)):
        color = COLORS[(len(others) + i) % len(COLORS)]
        found[method] = (color, ("dotted", "dashdot")[i // len(COLORS) % 2])
    return found


def figures(section: Section, tables: dict[str, pd.DataFrame]) -> list[Figure]:
    """Return all figures of an algorithm that have any content."""
    own = {name: select(table, algorithm=section.algorithm) for name, table in tables.items()}
    diagnostics = own["diagnostics"]
    probability = IMPROVEMENT.format(baseline=section.baseline)
    found = []

    def add(name: str, title: str, caption: str, charts: list[Chart], table: str, folded: bool = False) -> None:
        if charts:
            stem = f"{section.algorithm.lower()}-{name}"  # ids of environments can contain slashes and colons
            stem = re.sub(r"[^A-Za-z0-9._-]+", "-", stem)[:LONGEST_FILE_NAME]
            found.append(
                Figure(stem, f"{section.algorithm}: {title}", caption, charts=charts, folded=folded, table=table)
            )

    add("learning", "learning curves", LEARNING, _learning(section, own["curves"]), "curves")
    add("aggregate", "all environments", AGGREGATE, _dots(own["aggregate"], "iqm", "normalized IQM"), "aggregate")
    better = _dots(
        own["improvement"], "probability", f"P(better than {section.baseline})", mark=0.5, range=(-0.02, 1.02)
    )
    add("improvement", "probability of improvement", probability, better, "improvement")
    times = []
    for env, rows in groups(select(diagnostics, name=TIME), "env"):
        times.append(Chart(env, STEPS, TIME, _lines(rows)))
    add("time", "wall-clock time", f"{MEANS} {SAME_MACHINE}", times, "diagnostics")
    if "published" in tables:
        add("published", "published curves", PUBLISHED, _published(section, own["curves"]), "published")
    for env, rows in groups(diagnostics, "env"):
        add(f"diagnostics-{env}", f"replay in {env}", MEANS, _diagnostics(rows), "diagnostics", folded=True)
    return found


def _learning(section: Section, table: pd.DataFrame) -> list[Chart]:
    """Return learning curves, one panel per environment, with a line for each run of methods with several runs."""
    charts = []
    for task in section.tasks:
        lines = _lines(select(table, env=task.env))
        for method, members in task.counted.items():
            for run in members:
                if len(members) > 1:
                    x, y = points(run, section.measure)
                    stride = -(-len(x) // POINTS)
                    lines.append(Line(method, x[::stride], y[::stride]))
        if lines:
            threshold = task.scale.threshold if task.scale else None
            charts.append(Chart(task.env, STEPS, MEASURES[section.measure], lines, mark=threshold))
    return charts


def _dots(table: pd.DataFrame, name: str, x: str, **options: Any) -> list[Chart]:
    """Return a panel per summary of runs, with the column `name` and its interval."""
    charts = []
    for kind, rows in groups(table, "measure"):
        charts.append(Chart(SUMMARIES[kind], x, dots=rows[["method", name, f"{name}_low", f"{name}_high"]], **options))
    return charts


def _diagnostics(table: pd.DataFrame) -> list[Chart]:
    charts = []
    for name, rows in groups(table, "name"):
        source, _, kind = name.rpartition("/")
        title = DIAGNOSTICS.get(kind, "")
        if title and ("{" in title) == bool(source):
            charts.append(Chart(title.format(source=source), STEPS, "", _lines(rows)))
    return charts


def _published(section: Section, table: pd.DataFrame) -> list[Chart]:
    """Return the published curves up to the last step of each task, with the standard deviation as band."""
    charts = []
    for task in section.tasks:
        lines = []
        curves = published_curves(task.env)
        last = max((own.steps[-1] for own in task.own.values()), default=0)
        for (method, _), curve in curves[curves["env_steps"] <= last].groupby(["method", "source"]):
            if len(curve) > 1:
                steps, means, sds = curve[["env_steps", "mean", "sd"]].to_numpy(float).T
                seeds = int(curve["seeds"].max())
                lines.append(Line(f"{method}, published", steps, means, low=means - sds, high=means + sds, runs=seeds))
        if lines:
            lines += _lines(select(table, env=task.env))
            charts.append(Chart(task.env, STEPS, MEASURES[section.measure], lines))
    return charts


def _lines(rows: pd.DataFrame) -> list[Line]:
    """Return a line for the mean of each method, with its interval."""
    lines = []
    for method, part in groups(rows, "method"):
        x, y, low, high = part[["env_steps", "mean", "mean_low", "mean_high"]].to_numpy(float).T
        lines.append(Line(str(method), x, y, low=low, high=high, runs=int(part["runs"].iloc[0])))
    return lines
