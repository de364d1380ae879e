"""The report as one HTML file that needs no server and nothing from outside."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd
import plotly.offline
from plotly.utils import PlotlyJSONEncoder

import interreplay
from interreplay.experiments.report import html_tables
from interreplay.experiments.report.curves import AXES
from interreplay.experiments.report.drawing import interactive
from interreplay.experiments.report.drawing.charts import Figure, Styles
from interreplay.experiments.report.reading.runs import Run
from interreplay.experiments.report.sections import MEASURES, Section


def page(
    title: str,
    runs: Sequence[Run],
    sections: Sequence[Section],
    tables: dict[str, pd.DataFrame],
    figures: dict[str, list[Figure]],
    styles: Styles,
    smoothing: float = 0.0,
    folder: Path = Path(),
) -> str:
    """Return the page.

    Args:
        title: Its headline.
        runs: All runs.
        sections: What is compared.
        tables: See `tables.all_tables`.
        figures: Of each algorithm.
        styles: Color and dash of each method.
        smoothing: Of the learning curves at first; the page can change it.
        folder: Of the page: links to runs are relative to it.
    """
    charts: list[dict[str, Any]] = []
    parts = [_section(section, tables, figures[section.algorithm], styles, charts) for section in sections]
    links = [*(section.algorithm for section in sections), "Runs", "Method"]
    content = [*parts, _runs(tables["runs"], folder), _method(tables["scale"])]
    package = files("interreplay.experiments.report")
    return Template((package / "page.html").read_text()).substitute(
        title=html.escape(title),
        lead=_lead(runs, sections, tables["runs"]),
        style=(package / "page.css").read_text(),
        navigation="".join(f'<li><a href="#{_id(name)}">{html.escape(name)}</a></li>' for name in links),
        axes=_axes([figure.axis for listed in figures.values() for figure in listed if figure.axis]),
        smoothing=f"{smoothing:g}",
        choices="" if charts else " hidden",
        methods="".join(_box(method, style) for method, style in styles.items()),
        content="\n".join(content),
        version=interreplay.__version__,
        plotly=plotly.offline.get_plotlyjs(),
        charts=json.dumps(charts, cls=PlotlyJSONEncoder).replace("<", "\\u003c"),
        script=(package / "page.js").read_text(),
    )


def _id(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _box(method: str, style: tuple[str, str]) -> str:
    name, (color, dash) = html.escape(method, quote=True), style
    line = {"solid": "solid", "dash": "dashed", "dot": "dotted", "dashdot": "double"}[dash]
    swatch = f'<span class="swatch" style="border-top-color:{color};border-top-style:{line}"></span>'
    return f'<label><input type="checkbox" value="{name}" checked>{swatch}{name}</label>'


def _axes(present: Sequence[str]) -> str:
    """Return what chooses the axis of the learning curves, "" where there is one alone."""
    found = [axis for axis in AXES if axis in present]
    if len(found) < 2:
        return ""
    kind = 'type="radio" name="axis"'
    boxes = "".join(
        f'<label><input {kind} value="{axis}"{" checked" * (not i)}>{AXES[axis]}</label>'
        for i, axis in enumerate(found)
    )
    return f'<fieldset class="axes"><legend>Learning curves by</legend>{boxes}</fieldset>'


def _lead(runs: Sequence[Run], sections: Sequence[Section], table: pd.DataFrame) -> str:
    envs = {task.env for section in sections for task in section.tasks}
    methods = {method for section in sections for method in section.methods}
    counted = int(table["counted"].sum())
    text = f"{_many(len(methods), 'method')} in {_many(len(envs), 'environment')}. "
    text += f"{counted} of {_many(len(runs), 'run')} count."
    states = Counter(table.loc[~table["counted"], "state"])
    if states:
        said = ", ".join(f"{number} {html.escape(str(state))}" for state, number in states.items())
        text += f'</p><p class="warning">Not in any average: {said}. <a href="#runs">Which, and why</a>.'
    return text


def _many(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _section(
    section: Section, tables: dict[str, pd.DataFrame], figures: list[Figure], styles: Styles, charts: list[Any]
) -> str:
    own = {name: t[t["algorithm"] == section.algorithm] if len(t) else t for name, t in tables.items()}
    parts = [f'<h2 id="{_id(section.algorithm)}">{html.escape(section.algorithm)}: {MEASURES[section.measure]}</h2>']
    parts += [f'<p class="note">{html.escape(note)}</p>' for note in section.notes]
    drawn = [_figure(figure, styles, charts) for figure in figures]
    curves = sum(bool(figure.axis) for figure in figures)
    parts += [*drawn[:curves], *_notes(section)]
    if any(figure.name.endswith("-overview") for figure in figures):
        parts.append(drawn[curves])
        curves += 1
    if len(own["efficiency"]):
        parts += ["<h3>Sample efficiency</h3>", html_tables.efficiency(own["efficiency"], section.baseline)]
    if len(own["aggregate"]):
        environments = _many(int(own["aggregate"]["environments"].iloc[0]), "environment")
        parts += [f"<h3>{environments} together, normalized returns</h3>"]
        parts += [html_tables.overall(own["aggregate"], own["improvement"], section.baseline)]
    return "\n".join([*parts, *drawn[curves:]])


def _notes(section: Section) -> list[str]:
    """Return what is to be said of environments, once where it is the same."""
    said: dict[str, list[str]] = {}
    for task in section.tasks:
        for note in task.notes:
            said.setdefault(note, []).append(task.env)
    lines = [f"{', '.join(envs)}: {note}" for note, envs in said.items()]
    return [f'<p class="note">{html.escape(line)}</p>' for line in lines]


def _figure(figure: Figure, styles: Styles, charts: list[Any]) -> str:
    panels = []
    for chart in figure.charts:
        described = html.escape(
            f"{figure.title}, {chart.title}: {chart.y} {chart.x}, {', '.join(chart.methods)}", quote=True
        )
        head = f"<h4>{html.escape(chart.title)}</h4>"
        panels.append(
            f'<div>{head}<div class="chart" role="img" aria-label="{described}" data-chart="{len(charts)}"></div></div>'
        )
        charts.append(interactive.draw(chart, styles) | {"smooth": bool(figure.axis)})
    title, caption = html.escape(figure.title), html.escape(figure.caption)
    shown = f'<div class="panels">{"".join(panels)}</div>'
    shown += f'<figcaption class="caption">{caption} {_files(figure)}</figcaption>'
    if figure.folded:
        return f"<details><summary>{title} ({_many(len(panels), 'chart')})</summary><figure>{shown}</figure></details>"
    axis = f' data-axis="{figure.axis}"{" hidden" * (figure.axis != "env_steps")}' if figure.axis else ""
    return f"<figure{axis}><h3>{title}</h3>{shown}</figure>"


def _files(figure: Figure) -> str:
    """Return links to the files beside the page."""
    names = {"PNG": f"{figure.name}.png", "SVG": f"{figure.name}.svg", "CSV": f"{figure.table}.csv"}
    links = ", ".join(f'<a href="{html.escape(file, quote=True)}">{kind}</a>' for kind, file in names.items())
    return f'<span class="files">As {links}.</span>'


def _runs(table: pd.DataFrame, folder: Path) -> str:
    states = Counter(table["state"])
    said = ", ".join(f"{number} {html.escape(str(state))}" for state, number in states.items())
    return f'<h2 id="runs">Runs</h2><p>{said}.</p>{html_tables.runs(table, folder)}'


def _method(scale: pd.DataFrame) -> str:
    points = "".join(f"<li>{text}</li>" for text in METHOD)
    shown = f"<h3>Scales and thresholds</h3>{html_tables.scale(scale)}" if len(scale) else ""
    return f'<h2 id="method">Method</h2><ul>{points}</ul>{shown}'


METHOD = (
    "Runs are aligned by environment steps; between its evaluations a run is taken to be linear. Tables compare all "
    "methods over the steps that all of them have.",
    "The mean over steps is the area under a run's learning curve divided by its length. The final return is the mean "
    "over the last tenth of the steps. A run reaches the threshold at its first value at or above it; of several runs "
    "the median is given.",
    "Intervals are 95 % percentile bootstrap intervals from 2,000 resamples (scipy.stats.bootstrap), in which the runs "
    "of each environment are resampled among themselves (Agarwal et al. 2021, arXiv:2108.13264). They say how much the "
    "seeds matter, and nothing of other environments or settings.",
    "IQM: interquartile mean, the mean of the middle half of all runs of all environments.",
    "The probability of improvement is that of the Mann-Whitney statistic; ties count half.",
    "Runs that are unfinished, crashed, empty or unreadable, or that repeat another one's settings and seed, are "
    "listed and are in no average. A method whose runs crash often looks better here than it is.",
)
