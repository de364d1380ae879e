"""The report as one HTML file without external resources."""

from __future__ import annotations

import os
import re
from collections import Counter
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
import numpy as np
import pandas as pd
from markupsafe import Markup

import interreplay
from interreplay.experiments.process.machine import counted
from interreplay.experiments.report import draw
from interreplay.experiments.report.charts import Figure, Styles
from interreplay.experiments.report.curves import AXES
from interreplay.experiments.report.published import DIFFERENCES, STEPS
from interreplay.experiments.report.sections import MEASURES, Section
from interreplay.experiments.report.tables import groups, number, select, summaries

METHOD = (
    "Runs are aligned by environment steps and interpolated linearly. Tables compare all methods over the steps that "
    "all of them have.",
    "The mean over steps is the area under the learning curve of a run divided by its length. The final return is the "
    "mean over the last tenth of the steps. A run reaches the threshold at its first value of at least the threshold; "
    "tables show the median over runs.",
    "Intervals are 95 % percentile bootstrap intervals from 2,000 resamples (scipy.stats.bootstrap). The runs of each "
    "environment are resampled separately (Agarwal et al. 2021, arXiv:2108.13264). Intervals show the effect of the "
    "seed, not of other environments or settings.",
    "A comparison is called an improvement or a deterioration if its 95 % interval excludes equality.",
    "IQM: interquartile mean, the mean of the middle half of all runs of all environments.",
    "The probability of improvement is the Mann-Whitney statistic; ties count half.",
    "Runs that are unfinished, crashed, empty or unreadable, or that repeat the settings and seed of another run, are "
    "listed but excluded from averages. A method with many crashed runs therefore looks better here than it is.",
)
Table = dict[str, Any]
"""Label, header, rows and class of a table. A cell is a text, or a text and a small line below it; a row that is a
text is the heading of the rows below."""


def page(
    title: str,
    sections: list[Section],
    tables: dict[str, pd.DataFrame],
    figures: dict[str, list[Figure]],
    styles: Styles,
    folder: Path,
) -> str:
    """Return the page.

    Args:
        title: Headline.
        sections: The comparisons.
        tables: See `tables.all_tables`.
        figures: Figures of each algorithm.
        styles: Color and dash of each method.
        folder: Folder of the page; links to runs are relative to it.
    """
    runs = tables["runs"]
    pictures: dict[str, list[str]] = {}
    charts: dict[str, dict[str, Any]] = {}
    axes = set()
    for figure in chain(*figures.values()):
        axes.add(figure.axis)
        pictures[figure.name] = []
        for i, chart in enumerate(figure.charts):
            name = f"{figure.name}-{i}"
            picture, charts[name] = draw.svg(chart, styles, name)
            pictures[figure.name].append(picture)
    envs = {task.env for task in chain(*(section.tasks for section in sections))}
    methods = set(chain(*(section.methods for section in sections)))
    package = files("interreplay.experiments.report")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True)
    return environment.from_string((package / "page.html").read_text()).render(
        title=title,
        version=interreplay.__version__,
        lead=f"{counted(len(methods), 'method')} in {counted(len(envs), 'environment')}. "
        f"{runs['counted'].sum()} of {counted(len(runs), 'run')} count.",
        excluded=_states(runs[~runs["counted"]]),
        states=_states(runs),
        css=(package / "page.css").read_text(),
        script=(package / "page.js").read_text(),
        styles=styles,
        methods=list(styles),
        axes={axis: label for axis, label in AXES.items() if axis in axes},
        sections=[_section(section, tables, figures[section.algorithm]) for section in sections],
        pictures=pictures,
        suffixes=draw.SUFFIXES,
        charts=charts,
        runs=_runs(runs, folder),
        method=METHOD,
        scale=_scale(tables["scale"]),
    )


def _states(runs: pd.DataFrame) -> str:
    return ", ".join(f"{count} {state}" for state, count in Counter(runs["state"]).items())


def _section(section: Section, tables: dict[str, pd.DataFrame], figures: list[Figure]) -> dict[str, Any]:
    """Return the content of a section for the template."""
    name = section.algorithm
    own = {key: select(table, algorithm=name) for key, table in tables.items()}
    envs: dict[str, list[str]] = {}
    for task in section.tasks:
        for note in task.notes:
            envs.setdefault(note, []).append(task.env)
    shown = {}
    if len(own["efficiency"]):
        shown["Sample efficiency"] = _efficiency(own["efficiency"], section.baseline)
    if len(own["aggregate"]):
        count = counted(int(own["aggregate"]["environments"].iloc[0]), "environment")
        heading = f"{count} together, normalized returns"
        shown[heading] = _aggregate(own["aggregate"], own["improvement"], section.baseline)
    if "published" in tables:
        shown["Published results of the same environments"] = _published(own["published"], section)
    first = [figure for figure in figures if figure.axis or figure.name.endswith("-overview")]
    return {
        "id": re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"),
        "name": name,
        "measure": MEASURES[section.measure],
        "results": list(summaries(section, tables).values()),
        "notes": [*section.notes, *(f"{', '.join(names)}: {note}" for note, names in envs.items())],
        "curves": first,
        "tables": shown,
        "figures": [figure for figure in figures if figure not in first],
    }


def _with_interval(row: Any, name: str) -> str | tuple[str, str]:
    """Return a value with its interval, from the columns `name`, ``name_low`` and ``name_high``."""
    value = getattr(row, name, np.nan)
    low = getattr(row, f"{name}_low", np.nan)
    high = getattr(row, f"{name}_high", np.nan)
    text = number(value)
    if name.endswith("ratio") and np.isfinite(value):
        text += "×"
    return (text, f"{number(low)} to {number(high)}") if np.isfinite(low) else text


def _efficiency(rows: pd.DataFrame, baseline: str | None) -> Table:
    """Return a row per environment and method, see `tables.efficiency_table`."""
    has_scale = "threshold" in rows and bool(rows["threshold"].notna().any())
    columns = {"Mean over steps": "auc", "Final return": "final"}
    if has_scale:
        columns["Steps to threshold"] = "steps"
    if baseline is not None and rows["method"].nunique() > 1:
        columns[f"Mean − {baseline}"] = "auc_difference"
        if has_scale:
            columns[f"Area ÷ {baseline}"] = "auc_ratio"
            columns[f"Steps: {baseline} ÷ method"] = "steps_ratio"
        else:
            columns[f"Final − {baseline}"] = "final_difference"
    cells: list[Any] = []
    for env, members in groups(rows, "env"):
        cells.append(str(env))
        for row in members.itertuples():
            line: list[Any] = [row.method, str(row.runs)]
            for name in columns.values():
                if name == "steps" and np.isfinite(row.reached):
                    steps = number(row.steps) if np.isfinite(row.steps) else "not reached"
                    line.append((steps, f"{row.reached:.0f} of {row.runs} runs reach {number(row.threshold)}"))
                else:
                    line.append(_with_interval(row, name))
            cells.append(line)
    return {"label": "Sample efficiency by environment", "header": ["Method", "Runs", *columns], "rows": cells}


def _aggregate(aggregate: pd.DataFrame, improvement: pd.DataFrame, baseline: str | None) -> Table:
    """Return a row per method for all environments together, see `tables.aggregate_table`."""
    header = ["Method", "Runs", "Area, IQM", "Final, IQM", "Area, mean", "Final, mean"]
    if baseline:
        header += [f"Area ÷ {baseline}", f"P(area better than {baseline})"]
    probabilities = {}
    names = {"low": "probability_low", "high": "probability_high"}
    for row in improvement.rename(columns=names).itertuples():
        if row.measure == "auc":
            probabilities[row.method] = _with_interval(row, "probability")
    cells = []
    for method, parts in groups(aggregate, "method"):
        auc = next(parts[parts["measure"] == "auc"].itertuples())
        final = next(parts[parts["measure"] == "final"].itertuples())
        line = [str(method), str(auc.runs), _with_interval(auc, "iqm"), _with_interval(final, "iqm")]
        line += [_with_interval(auc, "mean"), _with_interval(final, "mean")]
        if baseline:
            line += [_with_interval(auc, "ratio"), probabilities.get(method, "–")]
        cells.append(line)
    return {"label": "All environments together", "header": header, "rows": cells}


def _published(rows: pd.DataFrame, section: Section) -> Table:
    """Return a row per environment, method and source, with a column per number of steps, see `published_table`."""
    cells: list[Any] = []
    for env, members in groups(rows, "env"):
        cells.append(str(env))
        for (method, source), points in groups(members, "method", "source"):
            line: list[Any] = [method, str(points["seeds"].iloc[0])]
            for point in points.itertuples():
                star = "*" if point.interpolated and np.isfinite(point.mean) else ""
                text = f"{number(point.mean)}{star}"
                line.append((text, f"± {number(point.sd)}") if np.isfinite(point.sd) else text)
            cells.append([*line, source])
    notes = list(DIFFERENCES)
    unknown = [task.env for task in section.tasks if task.env not in cells]
    if unknown:
        notes.append(f"No published curve of {', '.join(unknown)}.")
    header = ["Method", "Seeds", *(f"{steps // 1000}k steps" for steps in STEPS), "Source"]
    return {"label": "Published results", "header": header, "rows": cells, "notes": notes}


def _runs(rows: pd.DataFrame, folder: Path) -> dict[str, Table]:
    """Return a table of the runs that do not count and one of those that do, see `tables.runs_table`."""
    header = ["State", "Algorithm", "Environment", "Method", "Seed", "Steps", "Note", "Folder"]
    ordered = rows.sort_values(["algorithm", "env", "method", "seed"], kind="stable")
    found: dict[str, Table] = {}
    for row in ordered.itertuples():
        label = "Runs that count" if row.counted else "Runs that do not count"
        place = Path(str(row.folder))
        address = quote(os.path.relpath(place, folder.resolve()).replace(os.sep, "/"))
        link = Markup('<small><a href="{}/">{}</a></small>').format(address, place.name)
        seed = "–" if pd.isna(row.seed) else str(row.seed)
        cells = [row.state, row.algorithm, row.env, row.method, seed, f"{row.env_steps:,}", row.note or "–", link]
        table = found.setdefault(label, {"label": label, "header": header, "rows": [], "kind": "left"})
        table["rows"].append(cells)
    return dict(sorted(found.items(), reverse=True))


def _scale(rows: pd.DataFrame) -> Table:
    """Return the scale and the threshold of each environment, see `tables.scale_table`."""
    header = ["Environment", "Algorithm", "0 is", "1 is", "Threshold", "Origin"]
    cells = []
    for row in rows.itertuples():
        cells.append([row.env, row.algorithm, *map(number, (row.low, row.high, row.threshold)), row.how])
    return {"label": "Scales", "header": header, "rows": cells, "kind": "left"}
