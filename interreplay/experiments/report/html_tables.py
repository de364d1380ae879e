"""The tables of the page."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd


def table(header: Sequence[str], rows: Iterable[Sequence[str]], label: str, kind: str = "") -> str:
    """Return a table that scrolls sideways where it is too wide, also by keyboard; cells are HTML already."""
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in header)
    body = "".join(_row(row, len(header)) for row in rows)
    scroll = f'<div class="scroll" role="region" tabindex="0" aria-label="{html.escape(label, quote=True)}">'
    return f'{scroll}<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _row(cells: Sequence[str], columns: int) -> str:
    """Return a row; one cell alone is the heading of the rows below."""
    if len(cells) == 1:
        return f'<tr><th scope="rowgroup" colspan="{columns}">{cells[0]}</th></tr>'
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def number(value: Any) -> str:
    """Return a number with at least three significant digits and the minus sign of axes, a dash where there is none."""
    if value is None or not np.isfinite(value):
        return "–"
    size = abs(value)
    if size >= 1000:
        shown = f"{value:,.0f}"
    elif size >= 100:
        shown = f"{value:,.1f}"
    else:
        shown = f"{value:#.3g}".rstrip(".")
    return shown.replace("-", "−")


def with_interval(row: Any, name: str, suffix: str = "") -> str:
    """Return a value with its interval below."""
    value, low, high = (getattr(row, name + end, np.nan) for end in ("", "_low", "_high"))
    bounds = f"<small>{number(low)} to {number(high)}</small>" if np.isfinite(low) else ""
    return f"{number(value)}{suffix if np.isfinite(value) else ''}{bounds}"


def efficiency(rows: pd.DataFrame, baseline: str | None) -> str:
    """Return a row per environment and method; see `tables.efficiency_table`."""
    scaled = "threshold" in rows and bool(rows["threshold"].notna().any())
    several = baseline is not None and rows["method"].nunique() > 1
    header = ["Method", "Runs", "Mean over steps", "Final return"]
    header += ["Steps to threshold"] if scaled else []
    header += [f"Mean − {baseline}"] if several else []
    header += [f"Final − {baseline}"] if several and not scaled else []
    header += [f"Area ÷ {baseline}", f"Steps: {baseline} ÷ method"] if several and scaled else []
    cells = []
    for env, members in rows.groupby("env", sort=False):
        cells.append([html.escape(str(env))])
        for row in members.itertuples():
            line = [html.escape(str(row.method)), str(row.runs)]
            line += [with_interval(row, "auc"), with_interval(row, "final")]
            if scaled:
                line.append(_steps(row))
            if several:
                line.append(with_interval(row, "auc_difference"))
            if several and not scaled:
                line.append(with_interval(row, "final_difference"))
            if several and scaled:
                line += [with_interval(row, "auc_ratio", "×"), _times(getattr(row, "steps_ratio", np.nan))]
            cells.append(line)
    return table(header, cells, "Sample efficiency by environment")


def _times(value: float) -> str:
    return f"{number(value)}×" if np.isfinite(value) else "–"


def _steps(row: Any) -> str:
    reached = getattr(row, "reached", np.nan)
    if not np.isfinite(reached):
        return "–"
    count = f"<small>{int(reached)} of {row.runs} runs reach {number(row.threshold)}</small>"
    return (number(row.steps) if np.isfinite(row.steps) else "not reached") + count


def overall(aggregate: pd.DataFrame, improvement: pd.DataFrame, baseline: str | None) -> str:
    """Return, over all environments, one row per method."""
    header = ["Method", "Runs", "Area, IQM", "Final, IQM", "Area, mean", "Final, mean"]
    header += [f"Area ÷ {baseline}", f"P(area better than {baseline})"] if baseline else []
    cells = []
    for method, parts in aggregate.groupby("method", sort=False):
        auc, final = (next(parts[parts["measure"] == kind].itertuples()) for kind in ("auc", "final"))
        line = [html.escape(str(method)), str(auc.runs), with_interval(auc, "iqm"), with_interval(final, "iqm")]
        line += [with_interval(auc, "mean"), with_interval(final, "mean")]
        line += [with_interval(auc, "ratio", "×"), _probability(improvement, method)] if baseline else []
        cells.append(line)
    return table(header, cells, "All environments together")


def _probability(improvement: pd.DataFrame, method: Any) -> str:
    if not len(improvement):
        return "–"
    rows = improvement[(improvement["method"] == method) & (improvement["measure"] == "auc")]
    for row in rows.itertuples():
        bounds = f"<small>{number(row.low)} to {number(row.high)}</small>" if np.isfinite(row.low) else ""
        return number(row.probability) + bounds
    return "–"


def runs(rows: pd.DataFrame, page: Path) -> str:
    """Return every run, with a link to its folder; those that count are folded away.

    Args:
        rows: See `tables.runs_table`.
        page: Folder of the page, which links are relative to.
    """
    ordered = rows.sort_values(["algorithm", "env", "method", "seed"], kind="stable")
    out, counted = ordered[~ordered["counted"]], ordered[ordered["counted"]]
    shown = _runs(out, "Runs that do not count", page) if len(out) else "<p>All runs count.</p>"
    if len(counted):
        listed = _runs(counted, "Runs that count", page)
        shown += f"<details><summary>The {len(counted)} that count</summary>{listed}</details>"
    return shown


def _link(folder: str, page: Path) -> str:
    """Return a link from the page to the folder of a run."""
    address = quote(os.path.relpath(folder, page.resolve()).replace(os.sep, "/"))
    return f'<small><a class="run" href="{address}/">{html.escape(Path(folder).name)}</a></small>'


def _runs(rows: pd.DataFrame, label: str, page: Path) -> str:
    cells = [
        [
            html.escape(str(row.state)),
            *(html.escape(str(value)) for value in (row.algorithm, row.env, row.method)),
            "–" if pd.isna(row.seed) else html.escape(str(row.seed)),
            f"{row.env_steps:,}",
            html.escape(str(row.note)) or "–",
            _link(str(row.folder), page),
        ]
        for row in rows.itertuples()
    ]
    return table(
        ["State", "Algorithm", "Environment", "Method", "Seed", "Steps", "Note", "Folder"], cells, label, "left"
    )


def scale(rows: pd.DataFrame) -> str:
    """Return what 0 and 1 are."""
    cells = [
        [
            *(html.escape(str(v)) for v in (row.env, row.algorithm)),
            *map(number, (row.low, row.high, row.threshold)),
            html.escape(str(row.how)),
        ]
        for row in rows.itertuples()
    ]
    return table(["Environment", "Algorithm", "0 is", "1 is", "Threshold", "How"], cells, "Scales", "left")
