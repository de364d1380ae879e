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
from interreplay.experiments.report.figures import Figure, Styles
from interreplay.experiments.report.published import DIFFERENCES, STEPS
from interreplay.experiments.report.sections import MEASURES, Section
from interreplay.experiments.report.tables import groups, number, select, states, summaries, times

EFFICIENCY = {
    "Mean over steps": "auc",
    "Final return": "final",
    "Steps to threshold": "steps",
    "Mean − {baseline}": "auc_difference",
    "Final − {baseline}": "final_difference",
    "Area ÷ {baseline}": "auc_ratio",
    "Steps: {baseline} ÷ method": "steps_ratio",
}
"""Columns of `tables.efficiency_table` on the page, by their headers."""


def page(
    title: str,
    sections: list[Section],
    tables: dict[str, pd.DataFrame],
    figures: dict[str, list[Figure]],
    styles: Styles,
    folder: Path,
) -> str:
    """Return the page, in which links to runs are relative to `folder`; see `all_tables` and `styles`."""
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

    def link_address(run: str) -> str:
        return quote(os.path.relpath(run, folder.resolve()).replace(os.sep, "/"))

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
        runs=runs.sort_values(["counted", "algorithm", "env", "method", "seed"], kind="stable"),
        scale=tables["scale"],
        written=[name for name, table in tables.items() if len(table)],
        link_address=link_address,
        cell=_cell,
        number=number,
        groups=groups,
        steps=[f"{step:,} steps" for step in STEPS],
        differences=DIFFERENCES,
    )


def _section(section: Section, tables: dict[str, pd.DataFrame], figures: list[Figure]) -> dict[str, Any]:
    """Return the content of a section for the template."""
    name = section.algorithm
    own = {key: select(table, algorithm=name) for key, table in tables.items()}
    known = own["efficiency"].dropna(axis="columns", how="all").columns
    columns = {}
    for header, column in EFFICIENCY.items():
        if column in known:
            columns[header.format(baseline=section.baseline)] = column
    return {
        "id": re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"),
        "name": name,
        "baseline": section.baseline,
        "envs": [task.env for task in section.tasks],
        "measure": MEASURES[section.measure],
        "results": list(summaries(section, tables).values()),
        "notes": section.all_notes(),
        "curves": figures[:1],
        "columns": columns,
        "tables": own,
        "figures": figures[1:],
    }


def _cell(row: Any, name: str) -> str:
    """Return a value of a row with a small line below it: its interval, or how many runs reach the threshold."""
    value = getattr(row, name, np.nan)
    low = getattr(row, f"{name}_low", np.nan)
    high = getattr(row, f"{name}_high", np.nan)
    shown = times if name.endswith("ratio") else number
    text = shown(value)
    below = f"{shown(low)} to {shown(high)}" if np.isfinite(low) else ""
    if name.endswith("ratio") and np.isfinite(value):
        text += "×"
    if name == "steps" and np.isfinite(row.threshold):
        text = text.replace("–", "not reached")
        below = f"{row.reached:.0f} of {row.runs} runs reach {number(row.threshold)}"
    return Markup("{}<small>{}</small>").format(text, below) if below else text
