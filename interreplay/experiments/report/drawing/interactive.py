"""Charts for the page, drawn by Plotly; light or dark is the page's business."""

from __future__ import annotations

import html
import re
from typing import Any

import numpy as np
import plotly.graph_objects as go

from interreplay.experiments.report.drawing.charts import Cells, Chart, Line, Styles, apart, ink, span

HEIGHT = 300
GAP = 0.075
LINE = 16
"""Characters of a label for which there is room to the right of a chart."""
BREAKS = re.compile(r"(?<=[ ,=_/-])|(?=\()|(?<=[a-z])(?=[A-Z])")
"""Where a label may be broken."""


def draw(chart: Chart, styles: Styles) -> dict[str, Any]:
    """Return a chart as what ``Plotly.newPlot`` takes; a trace's ``meta`` is its method."""
    figure = go.Figure()
    figure.update_xaxes(tickangle=0)
    if chart.cells is not None:
        _cells(figure, chart.cells)
    else:
        (_dots if chart.dots else _lines)(figure, chart, styles)
    figure.update_layout(
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        showlegend=False,
        hovermode="x" if chart.lines else "closest",
        dragmode=False,
        font={"family": "system-ui, sans-serif", "size": 13},
    )
    figure.update_xaxes(
        title={"text": _text(chart.x), "standoff": 8}, zeroline=False, automargin=True, nticks=0 if chart.cells else 5
    )
    figure.update_yaxes(zeroline=False, automargin=True, separatethousands=True)
    return figure.to_plotly_json()


def _lines(figure: go.Figure, chart: Chart, styles: Styles) -> None:
    low, high = span(chart)
    for line in chart.lines:
        _line(figure, line, *styles[line.method])
    if chart.mark is not None:
        figure.add_hline(y=chart.mark, line={"width": 1, "dash": "dash", "color": "#888888"})
    if chart.mark is not None:
        place = {"x": 0.01, "xref": "paper", "xanchor": "left", "y": chart.mark, "yanchor": "bottom"}
        figure.add_annotation(
            text=_text(chart.mark_label), showarrow=False, font={"color": "#888888", "size": 11}, **place
        )
    labels = [broken(line.label) for line in chart.named]
    tall = [GAP * (high - low) * len(label) for label in labels]
    heights = apart([float(line.y[-1]) for line in chart.named], tall, low, high)
    for line, label, height in zip(chart.named, labels, heights, strict=True):
        place = {"x": 1.01, "xref": "paper", "xanchor": "left", "y": height, "yanchor": "middle", "align": "left"}
        font = {"color": styles[line.method][0], "size": 12}
        figure.add_annotation(
            text="<br>".join(map(_text, label)), showarrow=False, font=font, name=line.method, **place
        )
    for line in chart.marked:
        early = line.x[-1] < 0.6 * max(float(other.x[-1]) for other in chart.lines)
        place = {"x": float(line.x[-1]), "y": float(line.y[-1]), "xanchor": "left" if early else "right", "yshift": -9}
        font = {"color": styles[line.method][0], "size": 11}
        figure.add_annotation(text=_text(line.label), showarrow=False, font=font, name=line.method, **place)
    longest = max((len(part) for label in labels for part in label), default=0)
    margin = {"l": 8, "r": 14 + 7.5 * longest, "t": 16, "b": 8}
    figure.update_layout(height=HEIGHT, margin=margin)
    if max(float(np.max(line.x)) for line in chart.lines) >= 1000:
        figure.update_xaxes(tickformat="~s")
    figure.update_yaxes(range=[low, high], title={"text": _text(chart.y), "standoff": 6})


def broken(label: str) -> list[str]:
    """Return a name on as many lines as it takes, each up to `LINE` characters long."""
    lines = [""]
    for part in BREAKS.split(label):
        while len(lines[-1] + part.rstrip()) > LINE:
            if lines[-1]:
                lines.append("")
            else:  # a part that has no place to break
                lines[-1:] = [part[:LINE], ""]
                part = part[LINE:]
        lines[-1] += part
    return [line.strip() for line in lines if line.strip()]


def _text(text: str) -> str:
    """Return a text as Plotly shows it unchanged; it takes tags for formats."""
    return html.escape(text, quote=False)


def _line(figure: go.Figure, line: Line, color: str, dash: str) -> None:
    x, y = np.asarray(line.x, dtype=float).tolist(), np.asarray(line.y, dtype=float).tolist()
    banded = line.low is not None and bool(np.isfinite(line.low).any())
    if banded:
        low, high = (np.asarray(part, dtype=float).tolist() for part in (line.low, line.high))
        red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
        band = {
            "fill": "toself",
            "fillcolor": f"rgba({red},{green},{blue},0.18)",
            "line": {"width": 0},
            "mode": "lines",
        }
        figure.add_scatter(x=x + x[::-1], y=high + low[::-1], hoverinfo="skip", meta=line.method, **band)
    shape = {"color": color, "dash": dash, "width": 1 if line.thin else 2.2}
    marker: dict[str, Any] = {"color": color, "size": 6}
    if line.thin:
        marker |= {"symbol": "x-thin-open", "size": [0] * (len(x) - 1) + [8]}
    told = [f" [{a:,.4g}, {b:,.4g}]" for a, b in zip(low, high, strict=True)] if banded else [""] * len(x)
    figure.add_scatter(
        x=x,
        y=y,
        line=shape,
        marker=marker,
        mode="lines+markers" if line.thin or len(x) == 1 else "lines",
        opacity=0.7 if line.thin else 1.0,
        name=_text(line.label),
        meta=line.method,
        customdata=told,
        hovertemplate="%{y:,.4g}%{customdata}",
    )


def _cells(figure: go.Figure, cells: Cells) -> None:
    values = np.asarray(cells.values, dtype=float)
    rows, columns = [_text(name) for name in cells.rows], [_text(name) for name in cells.columns]
    figure.add_heatmap(
        z=[[None if np.isnan(value) else value for value in row] for row in values.tolist()],
        x=columns,
        y=rows,
        zmin=0.0,
        zmax=1.0,
        colorscale="Cividis",
        showscale=False,
        xgap=2,
        ygap=2,
        hovertemplate="%{y}, %{x}: %{z:.3f}<extra></extra>",
    )
    for row, column in zip(*np.nonzero(np.isfinite(values)), strict=True):
        font = {"color": ink(float(values[row, column])), "size": 12}
        place = {"x": columns[column], "y": rows[row]}
        figure.add_annotation(text=f"{values[row, column]:.2f}", showarrow=False, font=font, **place)
    margin = {"l": 8, "r": 8, "t": 8, "b": 8}
    figure.update_layout(height=70 + 30 * len(rows), margin=margin)
    figure.update_yaxes(autorange="reversed", showgrid=False, type="category")
    figure.update_xaxes(showgrid=False, type="category", tickangle=None, autotickangles=[0, 45, 90])


def _dots(figure: go.Figure, chart: Chart, styles: Styles) -> None:
    for dot in chart.dots:
        sure = bool(np.isfinite(dot.low))
        error = {"array": [dot.high - dot.value], "arrayminus": [dot.value - dot.low], "thickness": 3, "width": 0}
        bounds = f" [{dot.low:.3f}, {dot.high:.3f}]" if sure else ", one run only: no interval"
        figure.add_scatter(
            x=[dot.value],
            y=[_text(dot.label)],
            mode="markers",
            marker={"size": 11, "color": styles[dot.method][0]},
            error_x=error if sure else None,
            name=_text(dot.label),
            meta=dot.method,
            hovertemplate=f"{dot.value:.3f}{bounds}<extra>{_text(dot.label)}</extra>",
        )
    if chart.mark is not None:
        figure.add_vline(x=chart.mark, line={"width": 1, "dash": "dash", "color": "#888888"})
    if chart.range is not None:
        figure.update_xaxes(range=chart.range)
    figure.update_layout(height=90 + 34 * len(chart.dots), margin={"l": 8, "r": 16, "t": 8, "b": 8})
    figure.update_yaxes(range=[len(chart.dots) - 0.5, -0.5], showgrid=False, type="category")
