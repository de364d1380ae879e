"""Draw charts with Matplotlib: files for papers, and SVG for the page."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import io

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, MaxNLocator

from interreplay.experiments.report.figures import Chart, Figure, Styles

PANEL = (4.6, 3.1)
"""Width and height of a panel in inches."""
LONGEST_NAME = 26
LONGEST_TITLE = 50
TEXT = "#444444"
GRID = "#e5e5e5"
"""The style sheet of the page replaces these two colors, see page.css."""
PARAMETERS: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "grid.color": GRID,
    "axes.edgecolor": "#999999",
    "xtick.color": "#999999",
    "ytick.color": "#999999",
    "xtick.labelcolor": TEXT,
    "ytick.labelcolor": TEXT,
    "axes.labelcolor": TEXT,
    "text.color": TEXT,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "text.parse_math": False,  # names with dollar signs are not formulas
    "svg.hashsalt": "interreplay",
}
SUFFIXES = ("png", "svg", "pdf")


def write(figure: Figure, styles: Styles, folder: Path) -> list[Path]:
    """Write a figure as PNG, SVG and PDF, and return the paths."""
    metadata: dict[str, dict[str, Any]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with plt.rc_context(PARAMETERS):
        drawn = _draw(figure, styles)
        drawn.draw_without_rendering()
        drawn.set_layout_engine("none")  # the layout of the first drawing is kept
        paths = []
        for suffix in SUFFIXES:
            path = folder / f"{figure.name}.{suffix}"
            drawn.savefig(path, dpi=140, metadata=metadata[suffix])
            paths.append(path)
        plt.close(drawn)
    return paths


def svg(chart: Chart, styles: Styles, name: str) -> tuple[str, dict[str, Any]]:
    """Draw a panel for the page, called `name`. Elements of the i-th method have the class ``method<i>``.

    Returns:
        An ``<svg>`` element, and the data that the script of the page shows: ``box``, the axes in shares of the picture
        (left, top, width, height), ``x``, the limits of the horizontal axis, and ``lines``: for each mean the number of
        its method, x, y, and the ends of its band.
    """
    with plt.rc_context({**PARAMETERS, "svg.hashsalt": name}):
        drawn, panel = plt.subplots(figsize=(PANEL[0], _height([chart])), layout="constrained")
        _draw_panel(panel, chart, styles)
        file = io.StringIO()
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        drawn.savefig(file, format="svg", facecolor="none", metadata=metadata)
        box = panel.get_position()
        limits = panel.get_xlim()
        plt.close(drawn)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r'<g id="(method\d+)">', r'<g class="\1">', text)
    text = re.sub(r'<g id="[A-Za-z0-9._]+_\d+">', "<g>", text)
    methods = list(styles)
    lines = []
    for line in chart.lines:
        if line.runs:
            parts = [line.y, line.low, line.high]
            lines.append([methods.index(line.method), np.round(line.x).tolist(), *map(_round, parts)])
    return text, {"box": [box.x0, 1 - box.y1, box.width, box.height], "x": limits, "lines": lines}


def _round(values: Any) -> list[float | None]:
    """Return numbers with five significant digits; None for NaN."""
    numbers = pd.Series(values, dtype=float).map("{:.5g}".format).astype(float)
    return numbers.astype(object).where(numbers.notna(), None).tolist()


def _draw(figure: Figure, styles: Styles) -> Any:
    columns = min(3, len(figure.charts))
    rows = math.ceil(len(figure.charts) / columns)
    size = (columns * PANEL[0], rows * _height(figure.charts) + 0.6)
    drawn, panels = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    titles = shorten_names([chart.title for chart in figure.charts], LONGEST_TITLE)
    for panel, chart, title in zip(panels.flat, figure.charts, titles, strict=False):
        panel.set_title(title)
        _draw_panel(panel, chart, styles)
    for panel in panels.flat[len(figure.charts) :]:
        panel.set_visible(False)
    handles: list[Any] = []
    for method, label in figure.legend().items():
        options: dict[str, Any] = {"color": styles[method][0], "linestyle": styles[method][1]}
        handles.append(Line2D([], [], linewidth=2, label=label, **options))
    # The headline is the title of the legend, above the panels; a figure without lines has an empty legend.
    drawn.legend(
        handles=handles,
        title=textwrap.fill(figure.title, int(8 * size[0])),
        title_fontproperties={"size": 13, "weight": "bold"},
        loc="outside upper left",
        alignment="left",
        ncols=2 * columns,
        borderaxespad=0,
        frameon=False,
        fontsize=9,
    )
    caption = textwrap.fill(figure.caption, int(15 * size[0]))
    drawn.supxlabel(caption, x=0.01, ha="left", fontsize=8.5, color="#666666")
    return drawn


def _height(charts: list[Chart]) -> float:
    """Return the height of panels in inches."""
    heights = []
    for chart in charts:
        heights.append(PANEL[1] if chart.dots is None else 0.9 + 0.36 * len(chart.dots))
    return max(heights)


def shorten_names(names: Sequence[str], longest: int) -> list[str]:
    """Return names without the middle of long ones; of names that become equal, the later ones end with a number."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        short = name
        number = 1
        while len(short) > longest or short in found.values():
            end = f" ({number})" if number > 1 else ""
            kept = longest - 1 - len(end)
            short = name[: kept - kept // 2] + "…" + name[len(name) - kept // 2 :] + end
            number += 1
        found[name] = short
    return [found[name] for name in names]


def _draw_panel(panel: Any, chart: Chart, styles: Styles) -> None:
    panel.set_xlabel(chart.x)
    panel.set_ylabel(chart.y)
    if chart.dots is None:
        _draw_lines(panel, chart, styles)
    else:
        _draw_dots(panel, chart, chart.dots, styles)
    if chart.range is not None:
        panel.set_xlim(*chart.range)


def _draw_lines(panel: Any, chart: Chart, styles: Styles) -> None:
    panel.xaxis.set_major_locator(MaxNLocator(5))
    if max(np.max(line.x) for line in chart.lines) >= 1000:
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    methods = list(styles)
    if chart.mark is not None:
        panel.axhline(chart.mark, color="#888888", linewidth=0.8, linestyle=(0, (4, 4)))
    for line in sorted(chart.lines, key=lambda line: bool(line.runs)):
        color, dash = styles[line.method]
        options: dict[str, Any] = {"color": color, "gid": f"method{methods.index(line.method)}"}
        if not line.runs:
            panel.plot(line.x, line.y, linewidth=0.6, alpha=0.35, **options)
            continue
        if len(line.x) == 1:
            options["marker"] = "o"
        panel.plot(line.x, line.y, linewidth=2, linestyle=dash, **options)
        if line.low is not None and np.isfinite(line.low).any():
            panel.fill_between(line.x, line.low, line.high, alpha=0.14, linewidth=0, color=color, gid=options["gid"])


def _draw_dots(panel: Any, chart: Chart, dots: pd.DataFrame, styles: Styles) -> None:
    places = np.arange(len(dots))[::-1]
    methods = list(styles)
    for place, (method, value, low, high) in zip(places, dots.itertuples(index=False), strict=True):
        options: dict[str, Any] = {"color": styles[method][0], "gid": f"method{methods.index(method)}"}
        if np.isfinite(low):
            panel.plot([low, high], [place, place], linewidth=3, alpha=0.45, **options)
        panel.plot(value, place, "o", markersize=7, **options)
    if chart.mark is not None:
        panel.axvline(chart.mark, color="#888888", linewidth=0.8, linestyle=(0, (4, 4)))
    panel.set_yticks(places, shorten_names(dots["method"].tolist(), LONGEST_NAME))
    panel.set_ylim(-0.6, len(places) - 0.4)
    panel.grid(visible=False, axis="y")
    panel.tick_params(axis="y", length=0)
