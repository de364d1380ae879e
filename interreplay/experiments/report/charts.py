"""Charts as data, independent of the library that draws them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from interreplay.experiments.process.machine import format_count

# Colors of Okabe and Ito without yellow and black, which fade on light or dark backgrounds; the blue is lighter.
COLORS = ("#1F83C4", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("solid", "dashed", "dotted", "dashdot")
BASELINE_COLOR = "#7F7F7F"

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
