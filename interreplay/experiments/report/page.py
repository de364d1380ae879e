"""The report as one HTML file without external resources."""

from __future__ import annotations

import os
import re
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
from interreplay.experiments.process.machine import format_count
from interreplay.experiments.report import draw
from interreplay.experiments.report.charts import Figure, Styles
from interreplay.experiments.report.published import DIFFERENCES, STEPS
from interreplay.experiments.report.sections import MEASURES, Section
from interreplay.experiments.report.tables import groups, number, select, states, summaries, times

Table = dict[str, Any]
"""Label, header, rows and class of a table. A cell is a text, or a text and a small line below it; a row that is a
text is the heading of the rows below."""
LABELS = {True: "Runs that count", False: "Runs that do not count"}
"""Headings of the two tables of runs."""


def page(
    title: str,
    sections: list[Section],
    tables: dict[str, pd.DataFrame],
    figures: dict[str, list[Figure]],
    styles: Styles,
    folder: Path,
) -> str:
    """Return the page, in which links to runs are relative to `folder`; see `tables.all_tables` and `charts.styles`."""
    runs = tables["runs"]
    pictures: dict[str, list[str]] = {}
    charts: dict[str, dict[str, Any]] = {}
    for figure in chain(*figures.values()):
        pictures[figure.name] = []
        for i, chart in enumerate(figure.charts):
            name = f"{figure.name}-{i}"
            picture, charts[name] = draw.svg(chart, styles, name)
            pictures[figure.name].append(picture)
    compared = runs[runs["counted"]]
    methods = format_count(compared["method"].nunique(), "method")
    environments = format_count(compared["env"].nunique(), "environment")
    lead = f"{methods} in {environments}. {len(compared)} of {format_count(len(runs), 'run')} count."
    package = files("interreplay.experiments.report")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True)
    return environment.from_string((package / "page.html").read_text()).render(
        title=title,
        version=interreplay.__version__,
        lead=lead,
        excluded=states(runs[~runs["counted"]]),
        states=states(runs),
        css=(package / "page.css").read_text(),
        script=(package / "page.js").read_text(),
        styles=styles,
        methods=list(styles),
        sections=[_section(section, tables, figures[section.algorithm]) for section in sections],
        pictures=pictures,
        suffixes=draw.SUFFIXES,
        charts=charts,
        runs=_runs(runs, folder),
        counting=LABELS[True],
        scale=_scale(tables["scale"]),
        written=[name for name, table in tables.items() if len(table)],
    )


def _section(section: Section, tables: dict[str, pd.DataFrame], figures: list[Figure]) -> dict[str, Any]:
    """Return the content of a section for the template."""
    name = section.algorithm
    own = {key: select(table, algorithm=name) for key, table in tables.items()}
    shown = {}
    if len(own["efficiency"]):
        shown["Sample efficiency"] = _efficiency(own["efficiency"], section.baseline)
    if len(own["aggregate"]):
        count = format_count(int(own["aggregate"]["environments"].iloc[0]), "environment")
        heading = f"{count} together, normalized returns"
        shown[heading] = _aggregate(own["aggregate"], own["improvement"], section.baseline)
    if "published" in tables:
        shown["Published results of the same environments"] = _published(own["published"], section)
    return {
        "id": re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"),
        "name": name,
        "measure": MEASURES[section.measure],
        "results": list(summaries(section, tables).values()),
        "notes": section.all_notes(),
        "curves": figures[:1],
        "tables": shown,
        "figures": figures[1:],
    }


def _with_interval(row: Any, name: str) -> str | tuple[str, str]:
    """Return a value with its interval, from the columns `name`, ``name_low`` and ``name_high``."""
    value = getattr(row, name, np.nan)
    low = getattr(row, f"{name}_low", np.nan)
    high = getattr(row, f"{name}_high", np.nan)
    shown = times if name.endswith("ratio") else number
    text = shown(value)
    if shown is times and np.isfinite(value):
        text += "×"
    if not np.isfinite(low):
        return text
    return text, f"{shown(low)} to {shown(high)}"


def _efficiency(rows: pd.DataFrame, baseline: str | None) -> Table:
    """Return a row per environment and method, see `tables.efficiency_table`."""
    columns = {
        "Mean over steps": "auc",
        "Final return": "final",
        "Steps to threshold": "steps",
        f"Mean − {baseline}": "auc_difference",
        f"Final − {baseline}": "final_difference",
        f"Area ÷ {baseline}": "auc_ratio",
        f"Steps: {baseline} ÷ method": "steps_ratio",
    }
    known = rows.dropna(axis="columns", how="all").columns
    shown = {header: name for header, name in columns.items() if name in known}
    cells: list[Any] = []
    for env, members in groups(rows, "env"):
        cells.append(str(env))
        for row in members.itertuples():
            line: list[Any] = [row.method, str(row.runs)]
            for name in shown.values():
                line.append(_steps(row) if name == "steps" else _with_interval(row, name))
            cells.append(line)
    return {"label": "Sample efficiency by environment", "header": ["Method", "Runs", *shown], "rows": cells}


def _steps(row: Any) -> str | tuple[str, str]:
    """Return the median steps to the threshold of an environment, and how many runs reach it."""
    if not np.isfinite(row.threshold):
        return "–"
    steps = number(row.steps).replace("–", "not reached")
    return steps, f"{row.reached:.0f} of {row.runs} runs reach {number(row.threshold)}"


def _aggregate(aggregate: pd.DataFrame, improvement: pd.DataFrame, baseline: str | None) -> Table:
    """Return a row per method for all environments together, see `tables.aggregate_table`."""
    header = ["Method", "Runs", "Area, IQM", "Final, IQM", "Area, mean", "Final, mean"]
    header += [f"Area ÷ {baseline}", f"P(area better than {baseline})"]
    probabilities = {}
    for row in select(improvement, measure="auc").itertuples():
        probabilities[row.method] = _with_interval(row, "probability")
    cells = []
    for method, parts in groups(aggregate, "method"):
        auc, final = parts.itertuples()
        line = [str(method), str(auc.runs), _with_interval(auc, "iqm"), _with_interval(final, "iqm")]
        line += [_with_interval(auc, "mean"), _with_interval(final, "mean")]
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
                text = number(point.mean)
                if point.interpolated and np.isfinite(point.mean):
                    text += "*"
                line.append((text, f"± {number(point.sd)}".removesuffix("± –")))
            cells.append([*line, source])
    notes = list(DIFFERENCES)
    for task in section.tasks:
        if task.env not in cells:
            notes.append(f"No published curve of {task.env}.")
    header = ["Method", "Seeds", *map("{:,} steps".format, STEPS), "Source"]
    return {"label": "Published results", "header": header, "rows": cells, "notes": notes}


def _runs(rows: pd.DataFrame, folder: Path) -> dict[str, Table]:
    """Return a table of the runs that do not count and one of those that do, see `tables.runs_table`."""
    header = ["State", "Algorithm", "Environment", "Method", "Seed", "Steps", "Note", "Folder"]
    ordered = rows.sort_values(["counted", "algorithm", "env", "method", "seed"], kind="stable")
    found: dict[str, Table] = {}
    for row in ordered.itertuples():
        label = LABELS[row.counted]
        place = Path(str(row.folder))
        address = quote(os.path.relpath(place, folder.resolve()).replace(os.sep, "/"))
        link = Markup('<small><a href="{}/">{}</a></small>').format(address, place.name)
        seed = str(row.seed).replace("<NA>", "–")
        cells = [row.state, row.algorithm, row.env, row.method, seed, f"{row.env_steps:,}", row.note or "–", link]
        table = found.setdefault(label, {"label": label, "header": header, "rows": [], "kind": "left"})
        table["rows"].append(cells)
    return found


def _scale(rows: pd.DataFrame) -> Table:
    """Return the scale and the threshold of each environment, see `tables.scale_table`."""
    header = ["Environment", "Algorithm", "0 is", "1 is", "Threshold", "Origin"]
    cells = []
    for row in rows.itertuples():
        cells.append([row.env, row.algorithm, *map(number, (row.low, row.high, row.threshold)), row.how])
    return {"label": "Scales", "header": header, "rows": cells, "kind": "left"}
