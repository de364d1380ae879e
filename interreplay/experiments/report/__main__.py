"""``python -m interreplay.analysis RESULTS...``: from result folders to figures, tables and a page."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from interreplay.errors import UsageError
from interreplay.experiments.flags.reading import OneLineParser, underscored
from interreplay.experiments.flags.values import number
from interreplay.experiments.process.outcome import RED, colored
from interreplay.experiments.report.reading.runs import FINISHED
from interreplay.experiments.report.reading.settings import printable
from interreplay.experiments.report.report import Report, make_report
from interreplay.experiments.report.scores import Scores, read_scores
from interreplay.experiments.report.sections import MEASURES


def make_parser() -> OneLineParser:
    """Return the parser."""
    parser = OneLineParser(prog="interreplay report", description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("results", nargs="+", type=Path, metavar="RESULTS", help="folders in or below which runs are")
    into = "folder to write to (default: %(default)s)"
    add("--output_dir", "--output", type=Path, metavar="DIR", default=Path("report"), help=into)
    add("--title", metavar="TEXT", default="Replay methods compared", help="the page's headline")
    against = "method that others are compared with (default: Uniform, or one whose name contains it, or the first)"
    add("--baseline", metavar="NAME", help=against)
    compared = "what is compared (default: evaluation returns where all runs have them, else training returns)"
    add("--measure", choices=("auto", *MEASURES), default="auto", help=compared)
    counted = "the runs that averages are made of; all: also unfinished and crashed ones, as far as they got"
    add("--count", choices=("finished", "all"), default="finished", help=counted)
    of_curves = "of the learning curves (default: %(default)s)"
    add("--statistic", choices=("mean", "iqm"), default="mean", help=of_curves)
    smoothed = (
        "of the learning curves, 0 to .999: share of the average before, as in TensorBoard (default: %(default)s)"
    )
    add("--smoothing", type=number(0, 0.999), metavar="X", default=0.0, help=smoothed)
    known = 'JSON with known returns: {"Hopper-v5": {"low": 18, "high": 3200, "threshold": 3000}}'
    add("--scores", type=Path, metavar="FILE", help=known)
    reached = "to be reached, between the scale's 0 and 1, where --scores says nothing (default: %(default)s)"
    add("--threshold", type=number(0, 1, open_low=True), metavar="X", default=0.8, help=reached)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Make a report.

    Args:
        argv: The command line without the program's name; by default this process's own.

    Returns:
        The exit code: 0, or 2 after an error that the user can mend.
    """
    parser = make_parser()
    words = [underscored(word) for word in (sys.argv[1:] if argv is None else argv)]
    try:
        given = vars(parser.parse_args(words))
    except SystemExit as stop:  # argparse has said why
        return int(stop.code or 0)
    scores, threshold = given.pop("scores"), given.pop("threshold")
    try:
        known = Scores(read_scores(scores) if scores else {}, threshold)
        report = make_report(given.pop("results"), given.pop("output_dir"), scores=known, **given)
    except ModuleNotFoundError as error:
        if error.name not in ("matplotlib", "plotly", "pandas", "scipy"):
            raise
        sys.stderr.write(f'{parser.prog}: error: {error.name} is missing; pip install "interreplay[analysis]"\n')
        return 2
    except UsageError as error:
        message = parser.as_typed(" ".join(str(error).split()), words)
        sys.stderr.write(f"{colored(f'{parser.prog}: error: {message}', RED, sys.stderr)}\n")
        return 2
    sys.stdout.write(summary(report))
    return 0


def summary(report: Report) -> str:
    """Return what was found and written, in a few lines."""
    states = Counter(run.state for run in report.runs)
    lines = [f"{len(report.runs)} runs: {', '.join(f'{n} {state}' for state, n in states.items())}"]
    lines += [
        f"  {run.state}: {printable(run.path.name)}: {run.note}"
        for run in report.runs
        if run.state != FINISHED or run.repeats
    ]
    lines += [f"{section.algorithm}: {note}" for section in report.sections for note in section.notes]
    lines.append(f"{len(report.paths)} files in {report.paths[0].parent}; open {report.paths[0]}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
