"""List the transitions that runs have kept, draw their returns, or export them. ``--help`` lists the flags."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from interreplay.errors import UsageError
from interreplay.experiments.flags.reading import OneLineParser
from interreplay.learning.setting_fields import WholeNumber

EXPORT = "export"
COLUMNS = ("run", "environment", "rows", "episodes", "unfinished", "return min", "median", "max", "success", "size")
UNFINISHED = COLUMNS.index("unfinished")
WIDTH = 160


def main(argv: Sequence[str] | None = None) -> int:
    """List or export experience; return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == [EXPORT]:
        return export_parser().run(export, words[1:], stopped="stopped")
    return list_parser().run(list_stores, words, stopped="stopped")


def list_parser() -> OneLineParser:
    """Return the parser of the list."""
    parser = OneLineParser(
        description="List the transitions that runs have kept. `interreplay experience export RUN NAME` writes Minari "
        "datasets.",
    )
    add = parser.add_argument
    add(
        "results",
        nargs="+",
        type=Path,
        metavar="RESULTS",
        help="folders of runs or of experience, or their parent folders",
    )
    text = "draw the returns of completed episodes over env steps: a .png, .svg or .pdf"
    add("--plot", type=Path, metavar="FILE", help=text)
    return parser


def export_parser() -> OneLineParser:
    """Return the parser of exports."""
    description = "Write kept transitions as a Minari dataset."
    parser = OneLineParser(prog="interreplay experience export", description=description)
    add = parser.add_argument
    add("run", type=Path, metavar="RUN", help="folder of a run or of its experience")
    add("name", metavar="NAME", help="name of the dataset, such as pendulum/mine-v0")
    add("--episodes", type=WholeNumber(1), metavar="N", help="export only the newest N episodes")
    return parser


def list_stores(given: argparse.Namespace) -> int:
    """Print the list, and draw the returns; return the exit code."""
    from interreplay.experience.store import ExperienceStore
    from interreplay.experiments.studies.results_table import align

    lines = []
    drawn = {}
    problems = []
    for folder in find_stores(given.results):
        try:
            store = ExperienceStore(folder)
            episodes = store.episodes()
        except UsageError as error:
            problems.append(str(error))
            continue
        name = str(folder).removesuffix("/experience")
        lines.append(format_store(name, store, episodes))
        drawn[name] = episodes
    if lines:
        table = [COLUMNS, *lines]
        if not any(line[UNFINISHED] for line in lines):
            table = [(*line[:UNFINISHED], *line[UNFINISHED + 1 :]) for line in table]
        print(align(table, right=set(range(2, len(COLUMNS))), width=WIDTH))
    for problem in problems:
        print(problem)
    if not lines:
        raise UsageError("no experience can be read")
    if given.plot:
        plot(drawn, given.plot)
        print(f"returns in {given.plot}")
    return 0


def find_stores(results: Sequence[Path]) -> list[Path]:
    """Return the stores in folders."""
    from interreplay.experience.store.header import EXPERIENCE, HEADER

    found: dict[Path, None] = {}
    for path in results:
        if not path.is_dir():
            raise UsageError(f"{path} is not a folder; expected the folder of a run, or one above several")
        if (path / HEADER).is_file():
            found[path] = None
        for file in sorted(path.rglob(HEADER)):
            if file.parent.name.startswith(EXPERIENCE):  # also those that `StoreWriter.rewind` wrote
                found[file.parent] = None
    if not found:
        raise UsageError(
            f"{', '.join(map(str, results))} contains no experience; runs of interreplay train keep it, and runs of "
            "studies with --keep_experience N"
        )
    return list(found)


def format_store(name: str, store: Any, episodes: Any) -> tuple[str, ...]:
    """Return the cells of a store's row in the list. Only ended episodes count for returns and success rate."""
    ended = episodes.ended
    count = int(ended.sum())
    unfinished = len(ended) - count
    returns = ("", "", "")
    success = ""
    if count:
        low, middle, high = np.quantile(episodes.returns[ended], [0.0, 0.5, 1.0])
        returns = (f"{low:,.1f}", f"{middle:,.1f}", f"{high:,.1f}")
        if "success" in episodes:
            success = f"{np.mean(episodes.success[ended]):.0%}"
    counts = (f"{store.rows:,}", f"{count:,}", f"{unfinished:,}" if unfinished else "")
    size = f"{store.nbytes / 1e6:,.1f} MB"
    return (name, store.header.env, *counts, *returns, success, size)


def plot(drawn: dict[str, Any], file: Path) -> None:
    """Draw the return of each ended episode over the env step of its end."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("--plot needs matplotlib: pip install 'interreplay[analysis]'") from None
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    panel = figure.subplots()
    for name, episodes in drawn.items():
        ended = episodes.ended
        panel.plot(episodes.ends[ended], episodes.returns[ended], ".", markersize=3, label=Path(name).name)
    panel.set(xlabel="env steps", ylabel="return of the episode", title="Returns of the kept episodes")
    panel.legend(frameon=False, fontsize="small")
    try:
        figure.savefig(file, dpi=150)
    except (OSError, ValueError) as error:
        raise UsageError(f"--plot {file} cannot be written: {' '.join(str(error).split())}") from None


def export(given: argparse.Namespace) -> int:
    """Write a Minari dataset; return the exit code."""
    from interreplay.experience.offline_data.minari_episodes import check_new
    from interreplay.experience.store.minari_export import write_minari
    from interreplay.experience.store.reader import ExperienceStore, find_store

    check_new(given.name, "export to")
    folder = find_store(given.run)
    if folder is None:
        raise UsageError(f"{given.run} contains no experience; expected the folder of a run that has kept it")
    print(write_minari(ExperienceStore(folder), given.name, given.episodes))
    return 0
