"""Command line of study reports, which prints tables and writes a figure."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

Found = tuple[str, Callable[[], Any]]
"""The tables as Markdown, and a function that returns the figure, a `matplotlib.figure.Figure`."""


def report(module: str, doc: str, make_report: Callable[[Path], Found]) -> None:
    """Print the tables of a study's folder and write the figure to the path of ``--figure``.

    Args:
        module: Name of the module for ``python -m``.
        doc: Docstring of the module; its first line is shown by ``--help``.
        make_report: Function that returns `Found` for a folder of runs, as written by Tune or `benchmarks.keep_study`.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=doc.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder of the study's runs")
    parser.add_argument("--figure", type=Path, help="output file of the figure")
    args = parser.parse_args()
    text, draw = make_report(args.folder)
    print(text)
    if args.figure is not None:
        matplotlib.use("Agg")  # not at import, because notebooks draw with these modules, too
        draw().savefig(args.figure, dpi=150)
