"""Draw charts with Matplotlib: files for papers, and SVG for the page."""

from __future__ import annotations

import math
import re
import textwrap
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

from interreplay.experiments.report.charts import Chart, Figure, Styles

PANEL = (4.6, 3.1)
"""Width and height of a panel in inches."""
LONGEST_NAME = 26
LONGEST_TITLE = 60
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
    """Write a figure as PNG, SVG and PDF.

    Returns:
        The paths written.
    """
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
    """Draw a panel for the page.

    Args:
        chart: The panel.
        styles: Color and dash of each method; what belongs to the i-th method has the class ``method<i>``.
        name: Unique name on the page.

    Returns:
        An ``<svg>`` element, and what the script of the page requires to show values: ``box``, the axes in shares of
        the picture (left, top, width, height), ``x`` and ``y``, the limits of the axes, and ``lines``.
    """
    with plt.rc_context({**PARAMETERS, "svg.hashsalt": name}):
        drawn, panel = plt.subplots(figsize=(PANEL[0], _height([chart])), layout="constrained")
        _draw_panel(panel, chart, styles)
        file = io.StringIO()
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        drawn.savefig(file, format="svg", facecolor="none", metadata=metadata)
        box = panel.get_position()
        limits = {"x": panel.get_xlim(), "y": panel.get_ylim()}
        plt.close(drawn)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r'<g id="(method\d+)">', r'<g class="\1">', text)
    text = re.sub(r'<g id="[A-Za-z0-9._]+_\d+">', "<g>", text)
    methods = list(styles)
    lines = [
        {"method": methods.index(line.method)}
        | {part: _rounded(getattr(line, part)) for part in ("x", "y", "low", "high")}
        for line in chart.lines
        if line.runs
    ]
    return text, {"box": [box.x0, 1 - box.y1, box.width, box.height], **limits, "lines": lines}


def _rounded(values: Any) -> list[float | None] | None:
    """Return numbers with five significant digits; None for NaN."""
    if values is None:
        return None
    return [float(f"{value:.5g}") if math.isfinite(value) else None for value in np.asarray(values, dtype=float)]


def _draw(figure: Figure, styles: Styles) -> Any:
    columns = min(3, len(figure.charts))
    rows = math.ceil(len(figure.charts) / columns)
    size = (columns * PANEL[0], rows * _height(figure.charts) + 0.6)
    drawn, panels = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for panel, chart in zip(panels.flat, figure.charts, strict=False):
        panel.set_title(_shortened(chart.title, LONGEST_TITLE))
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
        if chart.cells is not None:
            heights.append(1.4 + 0.32 * len(chart.cells))
        elif chart.dots is not None:
            heights.append(0.9 + 0.36 * len(chart.dots))
        else:
            heights.append(PANEL[1])
    return max(heights)


def _shortened(name: str, longest: int = LONGEST_NAME) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _draw_panel(panel: Any, chart: Chart, styles: Styles) -> None:
    panel.set_xlabel(chart.x)
    panel.set_ylabel(chart.y)
    if chart.cells is not None:
        _draw_cells(panel, chart.cells)
    elif chart.dots is not None:
        _draw_dots(panel, chart, chart.dots, styles)
    else:
        _draw_lines(panel, chart, styles)
    if chart.range is not None:
        panel.set_xlim(*chart.range)


def _draw_lines(panel: Any, chart: Chart, styles: Styles) -> None:
    panel.xaxis.set_major_locator(MaxNLocator(5))
    if max(np.max(line.x) for line in chart.lines) >= 1000:
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    methods = list(styles)
    if chart.mark is not None:
        panel.axhline(chart.mark, color="#888888", linewidth=0.8, linestyle=(0, (4, 4)))
        place = {"xycoords": ("axes fraction", "data"), "xytext": (3, 3), "textcoords": "offset points"}
        panel.annotate(chart.mark_label, (0, chart.mark), fontsize=8, **place)
    for line in sorted(chart.lines, key=lambda line: bool(line.runs)):
        color, dash = styles[line.method]
        options: dict[str, Any] = {"color": color, "gid": f"method{methods.index(line.method)}"}
        if line.excluded:
            panel.plot(line.x, line.y, linewidth=0.8, linestyle=dash, alpha=0.7, **options)
            panel.plot(line.x[-1:], line.y[-1:], marker="x", markersize=5, **options)
            continue
        if not line.runs:
            panel.plot(line.x, line.y, linewidth=0.6, alpha=0.35, **options)
            continue
        marker = "o" if len(line.x) == 1 else None
        panel.plot(line.x, line.y, linewidth=2, linestyle=dash, marker=marker, **options)
        if line.low is not None and np.isfinite(line.low).any():
            panel.fill_between(line.x, line.low, line.high, alpha=0.14, linewidth=0, **options)


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
    panel.set_yticks(places, dots["method"].map(_shortened))
    panel.set_ylim(-0.6, len(places) - 0.4)
    panel.grid(visible=False, axis="y")
    panel.tick_params(axis="y", length=0)


def _draw_cells(panel: Any, cells: pd.DataFrame) -> None:
    """Draw numbers on colors from 0 (dark) to 1 (light)."""
    values = cells.to_numpy(dtype=float)
    panel.pcolormesh(np.ma.masked_invalid(values), cmap="cividis", vmin=0.0, vmax=1.0, edgecolors="white")
    panel.invert_yaxis()
    panel.set_xticks(np.arange(len(cells.columns)) + 0.5, cells.columns.map(_shortened), rotation=30, ha="right")
    panel.set_yticks(np.arange(len(cells)) + 0.5, cells.index.map(_shortened))
    panel.grid(visible=False)
    panel.tick_params(length=0)
    for row, column in np.argwhere(np.isfinite(values)):
        value = values[row, column]
        color = "#111111" if value > 0.48 else "#FFFFFF"
        panel.text(column + 0.5, row + 0.5, f"{value:.2f}", ha="center", va="center", fontsize=8, color=color)
