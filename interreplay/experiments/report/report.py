"""Command ``interreplay report``: a page, figures and tables from result folders."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from interreplay.errors import UsageError
from interreplay.experiments.flags.reading import OneLineParser
from interreplay.experiments.process.machine import format_count
from interreplay.experiments.report.figures import figures, styles
from interreplay.experiments.report.published import published_table
from interreplay.experiments.report.reading import FINISHED, Run, read_runs
from interreplay.experiments.report.sections import EXAMPLE, MEASURES, Scores, Section, build, read_scores
from interreplay.experiments.report.tables import TABLES, all_tables, states, summaries
from interreplay.learning.setting_fields import Number

PAGE = "index.html"
GENERATED = '<meta name="generator" content="interreplay '
"""Text that identifies the page of a report."""
LINK = re.compile(r'<a href="([A-Za-z0-9._-]+\.(?:csv|png|svg|pdf))">')
"""A link of the page to a table or a figure in its folder; names of runs have escaped brackets."""
MOST_NAMES = 3
"""Number of runs with the same state and note whose names the summary lists."""


@dataclass(frozen=True)
class Report:
    """A report on disk, with the numbers of `tables.all_tables`. The page is the first of its paths."""

    runs: list[Run]
    sections: list[Section]
    tables: dict[str, pd.DataFrame]
    paths: list[Path]


def make_report(
    results: Sequence[Path],
    output: Path,
    *,
    baseline: str | None = None,
    measure: str = "auto",
    count: str = "finished",
    scores: Scores | None = None,
    title: str = "Replay methods compared",
    published: bool = False,
) -> Report:
    """Read runs and write ``index.html``, the figures as PNG, SVG and PDF, and the tables as CSV.

    Args:
        results: Folders with runs, at any depth.
        output: Folder of the report; created if missing. An earlier report is replaced.
        baseline: Method that the others are compared with, see `sections.build`.
        measure: One of `sections.MEASURES`, or ``"auto"``: evaluation returns if all runs of an algorithm have them,
            else training returns.
        count: ``"finished"``, or ``"all"`` to count unfinished and crashed runs as well.
        scores: Known returns of the environments.
        title: Headline of the page.
        published: Whether to compare with published curves of the same environments.

    Raises:
        UsageError: No run or no run of the baseline is found, the output cannot be written, or the extra `analysis` is
            not installed.
    """
    try:
        from interreplay.experiments.report.draw import write
        from interreplay.experiments.report.page import page
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is missing; pip install 'interreplay[analysis]'") from None
    earlier = find_earlier(output)
    runs = read_runs(results)
    sections = build(runs, baseline=baseline, measure=measure, count=count, scores=scores or Scores())
    tables = all_tables(runs, sections)
    if published:
        tables["published"] = published_table(sections)
    methods: set[str] = set()
    drawn = {}
    lines: set[str] = set()
    for section in sections:
        methods.update(section.methods)
        drawn[section.algorithm] = figures(section, tables)
        for figure in drawn[section.algorithm]:
            lines.update(figure.legend())
    style = styles(sorted(methods), {section.baseline for section in sections}, sorted(lines - methods))

    try:
        output.mkdir(parents=True, exist_ok=True)
        paths = [output / PAGE]
        for name in sorted(earlier):
            (output / name).unlink(missing_ok=True)
        paths[0].write_text(
            page(title, sections, tables, figures=drawn, styles=style, folder=output), "utf-8", "replace"
        )
        for name, table in tables.items():
            if len(table):  # otherwise the page states the reason
                path = output / f"{name}.csv"
                table.to_csv(path, index=False, float_format="%.8g", errors="replace")
                paths.append(path)
        for listed in drawn.values():
            for figure in listed:
                paths += write(figure, style, output)
    except OSError as error:
        raise UsageError(
            f"--output_dir {output} cannot be written: {error.strerror or error}; choose another folder"
        ) from error
    return Report(runs, sections, tables, paths)


def find_earlier(output: Path) -> set[str]:
    """Return the files of the earlier report in a folder, to which its page links; reject other files to overwrite."""
    page = output / PAGE
    tables = {f"{name}.csv" for name in ("runs", *TABLES)}
    try:
        text = page.read_text(encoding="utf-8", errors="replace") if page.exists() else ""
    except OSError as error:
        raise UsageError(f"--output_dir {page} cannot be read: {error.strerror}; choose another folder") from None
    if GENERATED in text:
        return tables.union(LINK.findall(text))
    for name in (PAGE, *sorted(tables)):
        if (output / name).exists():
            kind = "an index.html that is not" if name == PAGE else f"a {name} that is not part of"
            raise UsageError(f"--output_dir {output} contains {kind} a report; choose another folder")
    return set()


def make_parser() -> OneLineParser:
    """Return the parser."""
    parser = OneLineParser(
        prog="interreplay report", description="Make figures, tables and a page from result folders."
    )
    add = parser.add_argument
    add("results", nargs="+", type=Path, metavar="RESULTS", help="folders with runs, at any depth")
    add(
        "--output_dir",
        "--output",
        type=Path,
        metavar="DIR",
        default=Path("report"),
        help="folder of the report (default: %(default)s)",
    )
    add("--title", metavar="TEXT", default="Replay methods compared", help="headline of the page")
    add(
        "--baseline",
        metavar="NAME",
        help="baseline of all comparisons (default: Uniform, else a method with Uniform in its name, "
        "else the first method)",
    )
    add(
        "--measure",
        choices=("auto", *MEASURES),
        default="auto",
        help="measure to compare; runs without it are left out (default: per algorithm, evaluation returns if all runs "
        "that count have them, else training returns)",
    )
    add(
        "--count",
        choices=("finished", "all"),
        default="finished",
        help="runs to average; all: also unfinished and crashed ones, up to the shortest run (default: %(default)s)",
    )
    add("--published", action="store_true", help="also compare with published results of the same environments")
    add("--scores", type=Path, metavar="FILE", help=f"JSON file with known returns: {EXAMPLE}")
    add(
        "--threshold",
        type=Number(0, 1, open_low=True),
        metavar="X",
        default=0.8,
        help="normalized return to reach in environments without a threshold in --scores (default: %(default)s)",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Make a report; return 0, or 2 after an error that the user can fix."""
    return make_parser().run(act, argv)


def act(given: argparse.Namespace) -> int:
    """Make a report and print its summary."""
    options = vars(given)
    path = options.pop("scores")
    given_scores = read_scores(path) if path else {}
    scores = Scores(given_scores, options.pop("threshold"))
    report = make_report(options.pop("results"), options.pop("output_dir"), scores=scores, **options)
    sys.stdout.write(summary(report))
    return 0


def summary(report: Report) -> str:
    """Return the states of runs, the results and the path of the page, as lines."""
    lines = [f"{format_count(len(report.runs), 'run')}: {states(report.tables['runs'])}"]
    alike: dict[tuple[str, str], list[str]] = {}
    for run in report.runs:
        if run.state != FINISHED or run.repeats:
            alike.setdefault((run.state, run.note), []).append(run.path.name)
    for (state, note), names in alike.items():
        listed = ", ".join(names[:MOST_NAMES])
        if len(names) > MOST_NAMES:
            listed += f" and {len(names) - MOST_NAMES} others"
        lines.append(f"  {state}: {listed}: {note}")
    for section in report.sections:
        shown = section.all_notes()
        methods, tasks = section.find_common_methods()
        together = len(tasks) > 1 and section.baseline in methods
        for method, sentences in summaries(section, report.tables).items():
            shown += sentences[:1] if together and method in methods else sentences
        for sentence in shown:
            lines.append(f"{section.algorithm}: {sentence}")
    published = report.tables.get("published")
    if published is not None and published.empty:
        lines.append("There are no published results of these environments.")
    lines.append(f"{len(report.paths)} files in {report.paths[0].parent}; open {report.paths[0]}")
    return "\n".join(lines) + "\n"
