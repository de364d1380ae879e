"""Charts as data, without an opinion on who draws them: `static` or `interactive`."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

# Okabe and Ito's colors without yellow and black, which fade on light or dark; the blue a little lighter.
COLORS = ("#1F83C4", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("solid", "dash", "dot", "dashdot")
BASELINE = "#7F7F7F"

MARKED = 3
"""Single runs per chart whose names are shown."""


@dataclass(frozen=True)
class Line:
    """A line, with a band where `low` and `high` are numbers; a thin one is a single run that does not count."""

    label: str
    method: str
    x: Any
    y: Any
    low: Any = None
    high: Any = None
    thin: bool = False


@dataclass(frozen=True)
class Dot:
    """A value with an interval."""

    label: str
    method: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Cells:
    """Numbers in rows and columns.

    Attributes:
        rows: Names, from the top.
        columns: Names.
        values: ``(rows, columns)``, NaN where there is none.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    values: Any


@dataclass(frozen=True)
class Chart:
    """Lines, or dots one below the other, or cells.

    Attributes:
        title: What is to be seen, in a few words.
        x: The horizontal axis with its unit.
        y: The vertical axis; empty for dots.
        lines: For lines.
        dots: For dots.
        cells: For cells.
        mark: A value with a line of its own: vertical for dots, horizontal for lines.
        mark_label: What this value is.
        range: Of the horizontal axis, where it is not up to the values.
    """

    title: str
    x: str
    y: str = ""
    lines: Sequence[Line] = ()
    dots: Sequence[Dot] = ()
    cells: Cells | None = None
    mark: float | None = None
    mark_label: str = ""
    range: tuple[float, float] | None = None

    @property
    def named(self) -> list[Line]:
        """The lines with a name beside the chart."""
        return [line for line in self.lines if not line.thin]

    @property
    def marked(self) -> list[Line]:
        """The single runs with a name where they end: only the first few, for want of room."""
        return [line for line in self.lines if line.thin][:MARKED]

    @property
    def methods(self) -> list[str]:
        """In the order drawn."""
        columns = self.cells.columns if self.cells else ()
        drawn = [*(line.method for line in self.lines), *(dot.method for dot in self.dots), *columns]
        return list(dict.fromkeys(drawn))


@dataclass(frozen=True)
class Figure:
    """Charts that belong together.

    Attributes:
        name: Of its files.
        title: Its headline.
        caption: How to read it.
        charts: One panel each.
        folded: Whether the page shows it only when asked.
        table: Name of the CSV file with its numbers.
        axis: Which of `curves.AXES` its learning curves are over, "" for other figures.
    """

    name: str
    title: str
    caption: str
    charts: list[Chart] = field(default_factory=list)
    folded: bool = False
    table: str = ""
    axis: str = ""


def ink(value: float) -> str:
    """Return the color in which a number can be read on the color of a cell."""
    return "#111111" if value > 0.48 else "#FFFFFF"


Styles = dict[str, tuple[str, str]]


def styles(methods: Sequence[str], baselines: Collection[str]) -> Styles:
    """Return one color and dash per method, the same in all figures; baselines come first and are gray."""
    others = [method for method in sorted(methods) if method not in baselines]
    cycle = len(COLORS)
    found = {m: (COLORS[i % cycle], DASHES[i // cycle % len(DASHES)]) for i, m in enumerate(others)}
    return {method: (BASELINE, "solid") for method in sorted(methods) if method in baselines} | found


def smoothed(values: Any, weight: float) -> Any:
    """Return the exponential moving average of values ``(t,)``, without a bias to 0 at the beginning, as TensorBoard's.

    Args:
        values: At consecutive steps.
        weight: Share of the average before in each step's, 0 for no smoothing, below 1.
    """
    if not weight:
        return values
    found, last, known = np.array(values, dtype=float), 0.0, 0.0
    for i, value in enumerate(found):
        last, known = weight * last + (1 - weight) * value, weight * known + (1 - weight)
        found[i] = last / known
    return found


def smooth(figure: Figure, weight: float) -> Figure:
    """Return learning curves smoothed by `smoothed`, bands included; other figures as they are."""
    if not (figure.axis and weight):
        return figure

    def calm(values: Any) -> Any:
        return None if values is None else smoothed(np.asarray(values, dtype=float), weight)

    def drawn(line: Line) -> Line:
        return replace(line, y=calm(line.y), low=calm(line.low), high=calm(line.high))

    charts = [replace(chart, lines=[drawn(line) for line in chart.lines]) for chart in figure.charts]
    return replace(figure, charts=charts, caption=f"{figure.caption} Smoothed by {weight:g}.")


def apart(values: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """Place labels as near to `values` as their `heights`, which must not overlap, and `low` to `high` allow."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    room = [(heights[i] + heights[j]) / 2 for i, j in zip(order, order[1:], strict=False)]
    shrink = min(1.0, (high - low) / sum(room)) if room else 1.0
    gaps = [0.0, *(shrink * gap for gap in room)]
    placed: list[float] = []
    for i, gap in zip(order, gaps, strict=False):
        placed.append(max(values[i], placed[-1] + gap if placed else low))
    top = high
    for k in reversed(range(len(placed))):
        placed[k] = min(placed[k], top)
        top = placed[k] - gaps[k]
    found = [math.nan] * len(values)
    for k, i in enumerate(order):
        found[i] = placed[k]
    return found


def span(chart: Chart) -> tuple[float, float]:
    """Return the vertical range of a chart of lines, bands included, with a margin."""
    parts = [
        np.asarray(part, dtype=float)
        for line in chart.lines
        for part in (line.y, line.low, line.high)
        if part is not None
    ]
    marks = [] if chart.mark is None else [np.array([chart.mark])]
    values = np.concatenate([part[np.isfinite(part)] for part in [*parts, *marks]])
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin
