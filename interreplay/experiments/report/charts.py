"""Charts as data, independent of the library that draws them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from interreplay.experiments.process.machine import counted

# Colors of Okabe and Ito without yellow and black, which fade on light or dark backgrounds; the blue is lighter.
COLORS = ("#1F83C4", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("solid", "dashed", "dotted", "dashdot")
BASELINE_COLOR = "#7F7F7F"

Styles = dict[str, tuple[str, str]]
"""Color and dash of each method."""


@dataclass(frozen=True)
class Line:
    """A curve of a method.

    Attributes:
        method: The method.
        x: Horizontal positions ``(t,)``.
        y: Values ``(t,)``.
        low: Lower ends of the band ``(t,)``, or None.
        high: Upper ends of the band ``(t,)``, or None.
        runs: Number of runs behind a mean; 0 for a single run, which is drawn thin.
        excluded: Whether this is a run that does not count; it ends with a cross.
    """

    method: str
    x: Any
    y: Any
    low: Any = None
    high: Any = None
    runs: int = 0
    excluded: bool = False


@dataclass(frozen=True)
class Chart:
    """One panel with lines, or dots below each other, or a heat map.

    Attributes:
        title: Title of the panel.
        x: Label of the horizontal axis with its unit.
        y: Label of the vertical axis.
        lines: Curves.
        dots: Columns: method, value, and the two ends of its interval.
        cells: Numbers of a heat map, with names of rows and columns; NaN is an empty cell.
        mark: Value with a line across the panel: horizontal with `lines`, vertical with `dots`.
        mark_label: Label of this line.
        range: Limits of the horizontal axis; None fits the values.
    """

    title: str
    x: str
    y: str = ""
    lines: Sequence[Line] = ()
    dots: pd.DataFrame | None = None
    cells: pd.DataFrame | None = None
    mark: float | None = None
    mark_label: str = ""
    range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Figure:
    """Panels that share a caption and a legend.

    Attributes:
        name: Name of its files, without suffix.
        title: Headline.
        caption: Explains the picture.
        charts: Panels.
        folded: Whether the page hides the figure until a reader opens it.
        table: Name of the CSV file with its numbers.
        axis: Axis of its learning curves, one of `curves.AXES`; "" for other figures.
    """

    name: str
    title: str
    caption: str
    charts: list[Chart] = field(default_factory=list)
    folded: bool = False
    table: str = ""
    axis: str = ""

    def legend(self) -> dict[str, str]:
        """Return the label of each method that is drawn as lines, with its number of runs."""
        counts: dict[str, set[int]] = {}
        for chart in self.charts:
            for line in chart.lines:
                counts.setdefault(line.method, set()).update({line.runs} - {0})
        labels = {}
        for method, found in counts.items():
            labels[method] = method
            if found:
                few = "" if len(found) == 1 else f"{min(found)}–"
                labels[method] += f" ({few}{counted(max(found), 'run')})"
        return labels


def styles(methods: Sequence[str], baselines: Collection[str | None], published: Sequence[str] = ()) -> Styles:
    """Return the color and dash of each method for all figures; baselines come first and are gray.

    Published curves come last and are dotted or dash-dotted.
    """
    found: Styles = {method: (BASELINE_COLOR, "solid") for method in sorted(methods) if method in baselines}
    others = [method for method in sorted(methods) if method not in baselines]
    for i, method in enumerate(others):
        dash = DASHES[i // len(COLORS) % len(DASHES)]
        found[method] = (COLORS[i % len(COLORS)], dash)
    for i, method in enumerate(sorted(published)):
        color = COLORS[(len(others) + i) % len(COLORS)]
        found[method] = (color, ("dotted", "dashdot")[i // len(COLORS) % 2])
    return found


def smoothed(values: Any, weight: float) -> Any:
    """Return the exponential moving average of values ``(t,)``, debiased at the start as in TensorBoard.

    Args:
        values: Values at consecutive steps.
        weight: Weight of the previous average, 0 (no smoothing) to below 1.
    """
    if not weight:
        return values
    found = np.array(values, dtype=float)
    average = 0.0
    total = 0.0
    for i, value in enumerate(found):
        average = weight * average + (1 - weight) * value
        total = weight * total + (1 - weight)
        found[i] = average / total
    return found
