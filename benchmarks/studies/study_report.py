"""The command line of what a study found: its tables on the screen, its figure in a file."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

Found = tuple[str, Callable[[], Any]]
"""The tables as Markdown, and a function that returns the figure, a `matplotlib.figure.Figure`."""


def report(module: str, doc: str, found_in: Callable[[Path], Found]) -> None:
    """Print the tables of a study's folder and write the figure to the path of ``--figure``.

    Args:
        module: Name of the module for ``python -m``.
        doc: Docstring of the module; the first line is for ``--help``.
        found_in: Returns the findings of the runs in a folder, as Tune or `benchmarks.keep_study` left them.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=doc.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of the study's runs")
    parser.add_argument("--figure", type=Path, help="where to draw it")
    args = parser.parse_args()
    text, draw = found_in(args.folder)
    print(text)
    if args.figure is not None:
        matplotlib.use("Agg")  # here and not where a module is imported: notebooks draw with these modules, too
        draw().savefig(args.figure, dpi=150)
