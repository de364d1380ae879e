"""Charts as PNG and SVG files, drawn by Matplotlib."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from interreplay.experiments.report.drawing.charts import Cells, Chart, Figure, Styles, apart, ink, span

DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
PANEL = 4.6, 3.3
LONGEST = 26
LONGEST_TITLE = 60
PARAMETERS: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E5E5E5",
    "axes.edgecolor": "#999999",
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "axes.labelcolor": "#333333",
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "svg.fonttype": "none",
    "text.parse_math": False,  # names are shown as they are, dollar signs included
    "svg.hashsalt": "interreplay",
}


def draw(figure: Figure, styles: Styles, folder: Path) -> list[Path]:
    """Write a figure as ``NAME.png`` and ``NAME.svg``.

    Returns:
        The paths written.
    """
    with plt.rc_context(PARAMETERS):
        drawn = _drawn(figure, styles)
        paths = [folder / f"{figure.name}.png", folder / f"{figure.name}.svg"]
        drawn.savefig(paths[0], dpi=140)
        drawn.savefig(paths[1], metadata={"Date": None})
        plt.close(drawn)
    return paths


def _drawn(figure: Figure, styles: Styles) -> Any:
    columns = min(3, len(figure.charts))
    rows = math.ceil(len(figure.charts) / columns)
    size = columns * PANEL[0], rows * _height(figure) + 0.4
    drawn, panels = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    drawn.suptitle(figure.title, x=0.01, ha="left", fontsize=13, fontweight="bold")
    for panel, chart in zip(panels.flat, figure.charts, strict=False):
        panel.set_title(_short(chart.title, LONGEST_TITLE))
        panel.set_xlabel(chart.x)
        if chart.cells is not None:
            _draw_cells(panel, chart.cells)
        else:
            (_draw_dots if chart.dots else _draw_lines)(panel, chart, styles)
    for panel in panels.flat[len(figure.charts) :]:
        panel.set_visible(False)
    caption = "\n".join(textwrap.wrap(figure.caption, int(15 * size[0])))
    drawn.supxlabel(caption, x=0.01, ha="left", fontsize=8.5, color="#666666")
    return drawn


def _height(figure: Figure) -> float:
    """Return the height of a panel in inches."""
    if any(chart.cells is not None for chart in figure.charts):
        return 1.4 + 0.32 * max(len(chart.cells.rows) for chart in figure.charts if chart.cells is not None)
    dots = max(len(chart.dots) for chart in figure.charts)
    return 0.9 + 0.36 * dots if dots else PANEL[1]


def _draw_cells(panel: Any, cells: Cells) -> None:
    """Draw numbers on colors: from the best known values of 0, dark, to those of 1, light."""
    panel.imshow(np.ma.masked_invalid(cells.values), cmap="cividis", vmin=0.0, vmax=1.0, aspect="auto")
    panel.set_xticks(range(len(cells.columns)), map(_short, cells.columns), rotation=30, ha="right")
    panel.set_yticks(range(len(cells.rows)), map(_short, cells.rows))
    panel.grid(visible=False)
    panel.tick_params(length=0)
    for row, column in zip(*np.nonzero(np.isfinite(cells.values)), strict=True):
        value = cells.values[row, column]
        panel.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=8, color=ink(value))


def _short(name: str, most: int = LONGEST) -> str:
    """Return a name that leaves room for what it names."""
    return name if len(name) <= most else name[: most - 1] + "…"


def _draw_lines(panel: Any, chart: Chart, styles: Styles) -> None:
    low, high = span(chart)
    panel.set_ylim(low, high)
    panel.set_ylabel(chart.y)
    panel.xaxis.set_major_locator(MaxNLocator(5))
    if max(float(np.max(line.x)) for line in chart.lines) >= 1000:
        panel.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    if chart.mark is not None:
        panel.axhline(chart.mark, color="#888888", linewidth=0.8, linestyle=(0, (4, 4)))
    for line in chart.lines:
        color, dash = styles[line.method]
        if line.thin:
            panel.plot(line.x, line.y, color=color, linewidth=0.8, linestyle=DASHES[dash], alpha=0.7)
            panel.plot(line.x[-1:], line.y[-1:], color=color, marker="x", markersize=5)
            continue
        single = "o" if len(line.x) == 1 else None
        panel.plot(line.x, line.y, color=color, linewidth=2, linestyle=DASHES[dash], marker=single)
        if line.low is not None and np.isfinite(line.low).any():
            panel.fill_between(line.x, line.low, line.high, color=color, alpha=0.18, linewidth=0)
    _label_ends(panel, chart, styles, low, high)


def _label_ends(panel: Any, chart: Chart, styles: Styles, low: float, high: float) -> None:
    """Write names at the right ends of the lines, moved apart where they would meet."""
    named = [(line.label, line.method, float(line.y[-1])) for line in chart.named]
    if chart.mark is not None:
        place = {"xycoords": ("axes fraction", "data"), "xytext": (3, 3), "textcoords": "offset points"}
        panel.annotate(chart.mark_label, (0, chart.mark), color="#888888", fontsize=8, **place)
    right = max(float(line.x[-1]) for line in chart.lines)
    for line in chart.marked:
        early = line.x[-1] < 0.6 * right
        offset, side = ((5, -9), "left") if early else ((-5, -9), "right")
        place = {"xy": (line.x[-1], line.y[-1]), "xytext": offset, "textcoords": "offset points", "ha": side}
        panel.annotate(line.label, color=styles[line.method][0], fontsize=8, **place)
    heights = apart([value for _, _, value in named], [0.075 * (high - low)] * len(named), low, high)
    for (label, method, _), height in zip(named, heights, strict=True):
        color = styles[method][0]
        panel.annotate(
            label,
            (1.01, height),
            xycoords=("axes fraction", "data"),
            color=color,
            va="center",
            fontsize=9,
            clip_on=False,
        )


def _draw_dots(panel: Any, chart: Chart, styles: Styles) -> None:
    places = np.arange(len(chart.dots))[::-1]
    for place, dot in zip(places, chart.dots, strict=True):
        color = styles[dot.method][0]
        if np.isfinite(dot.low):
            panel.plot([dot.low, dot.high], [place, place], color=color, linewidth=3, alpha=0.45, solid_capstyle="butt")
        panel.plot(dot.value, place, "o", color=color, markersize=7)
    if chart.mark is not None:
        panel.axvline(chart.mark, color="#888888", linewidth=0.8, linestyle=(0, (4, 4)))
    if chart.range is not None:
        panel.set_xlim(*chart.range)
    panel.set_yticks(places, [dot.label for dot in chart.dots])
    panel.set_ylim(-0.6, len(places) - 0.4)
    panel.grid(visible=False, axis="y")
    panel.tick_params(axis="y", length=0)
