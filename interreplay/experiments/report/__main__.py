"""Command ``interreplay report``: figures, tables and a page from result folders."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from interreplay.experiments.flags.reading import OneLineParser
from interreplay.experiments.flags.values import number
from interreplay.experiments.process.machine import format_count
from interreplay.experiments.report.reading import FINISHED
from interreplay.experiments.report.report import Report, make_report
from interreplay.experiments.report.sections import EXAMPLE, MEASURES, Scores, read_scores
from interreplay.experiments.report.tables import states, summaries

MOST_NAMES = 3
"""Number of runs with the same state and note whose names the summary lists."""
DESCRIPTION = "Make figures, tables and a page from result folders."


def make_parser() -> OneLineParser:
    """Return the parser."""
    parser = OneLineParser(prog="interreplay report", description=DESCRIPTION)
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
        help="method that the others are compared with (default: Uniform, else a method with Uniform in its name, "
        "else the first method)",
    )
    add(
        "--measure",
        choices=("auto", *MEASURES),
        default="auto",
        help="what to compare; runs without it are left out (default: per algorithm, evaluation returns if all runs "
        "that count have them, else training returns)",
    )
    add(
        "--count",
        choices=("finished", "all"),
        default="finished",
        help="runs to average; all: unfinished and crashed runs as well, up to the shortest (default: %(default)s)",
    )
    add("--published", action="store_true", help="also compare with published results of the same environments")
    add("--scores", type=Path, metavar="FILE", help=f"JSON file with known returns: {EXAMPLE}")
    add(
        "--threshold",
        type=number(0, 1, open_low=True),
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
    lines.append(f"{len(report.paths)} files in {report.paths[0].parent}; open {report.paths[0]}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
