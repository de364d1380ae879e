"""Result folders to a folder with a page, figures and tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from interreplay.errors import UsageError
from interreplay.experiments.report.drawing.charts import smooth, styles
from interreplay.experiments.report.figures import figures
from interreplay.experiments.report.reading.runs import Run, read_runs
from interreplay.experiments.report.scores import Scores
from interreplay.experiments.report.sections import Section, build
from interreplay.experiments.report.tables import TABLES, all_tables

PAGE = "index.html"
OWN = re.compile(r'<meta name="generator" content="interreplay |<footer><p>Written by interreplay ')
"""In every page of ours; the second in those made before the first was."""


@dataclass(frozen=True)
class Report:
    """What was written, and from what.

    Attributes:
        runs: All runs that were found.
        sections: What was compared.
        paths: The files, the page first.
    """

    runs: list[Run]
    sections: list[Section]
    paths: list[Path]


def make_report(
    results: Sequence[Path],
    output: Path,
    *,
    baseline: str | None = None,
    measure: str = "auto",
    count: str = "finished",
    statistic: str = "mean",
    scores: Scores | None = None,
    title: str = "Replay methods compared",
    smoothing: float = 0.0,
) -> Report:
    """Read runs and write ``index.html``, the figures as PNG and SVG, and the tables as CSV.

    Args:
        results: Folders in or below which runs are.
        output: Where to; made where it is missing. A report that is there already is replaced.
        baseline: The method that others are compared with; by default Uniform, or one whose name contains it, or the
            first.
        measure: ``"auto"``, or one of `study.MEASURES`.
        count: ``"finished"`` or ``"all"``.
        statistic: Of the learning curves, ``"mean"`` or ``"iqm"``.
        scores: What is known of the environments.
        title: The page's headline.
        smoothing: Of the learning curves, see `charts.smoothed`; tables are of what was measured.

    Raises:
        UsageError: There is no run, or the output cannot be written.
    """
    check_output(output)
    runs = read_runs(results)
    sections = build(runs, baseline=baseline, measure=measure, count=count, scores=scores or Scores())
    tables = all_tables(runs, sections)
    methods = {method for section in sections for method in section.methods}
    style = styles(sorted(methods), {section.baseline for section in sections if section.baseline})
    drawn = {section.algorithm: figures(section, tables, statistic) for section in sections}

    # Drawing needs the extra `analysis`.
    from interreplay.experiments.report.drawing.static import draw
    from interreplay.experiments.report.page import page

    try:
        output.mkdir(parents=True, exist_ok=True)
        paths = [output / PAGE]
        paths[0].write_text(page(title, runs, sections, tables, drawn, style, smoothing, output), encoding="utf-8")
        for name, table in tables.items():
            path = output / f"{name}.csv"
            if not len(table):  # the page says why
                path.unlink(missing_ok=True)
                continue
            paths.append(path)
            table.to_csv(paths[-1], index=False, float_format="%.8g")
        for figure in (figure for listed in drawn.values() for figure in listed):
            paths += draw(smooth(figure, smoothing), style, output)
    except OSError as error:
        raise UsageError(
            f"--output_dir {output} cannot be written: {error.strerror or error}; choose another folder"
        ) from error
    return Report(runs, sections, paths)


def check_output(output: Path) -> None:
    """Find out, before anything is read, whether a report can go to a folder without replacing what is no report.

    Raises:
        UsageError: It holds a page, or tables, of somebody else's.
    """
    page = output / PAGE
    if not page.exists():
        foreign = [name for name in ("runs", *TABLES) if (output / f"{name}.csv").exists()]
        if foreign:
            raise UsageError(
                f"--output_dir {output} holds a {foreign[0]}.csv that is no report's; choose another folder"
            )
        return
    try:
        own = OWN.search(page.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise UsageError(f"--output_dir {page} cannot be read: {error.strerror}; choose another folder") from None
    if not own:
        raise UsageError(f"--output_dir {output} holds an {PAGE} that is no report; choose another folder")
