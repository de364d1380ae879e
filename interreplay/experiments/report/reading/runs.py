"""Find and read the runs below result folders, and determine their states."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

import pandas as pd

from interreplay.errors import UsageError
from interreplay.experiments.report.reading.planned_runs import NAME as STUDY
from interreplay.experiments.report.reading.planned_runs import damage, forget, planned
from interreplay.experiments.report.reading.results import FILES, Results, read_results
from interreplay.experiments.report.reading.settings import Description, describe, method_names, printable

FINISHED = "finished"
UNFINISHED = "unfinished"
CRASHED = "crashed"
EMPTY = "empty"
UNREADABLE = "unreadable"
ERRORS = ("error.txt", "error.pkl")
STATUS = "status.json"
"""State of a run, written by cluster_run.py."""
LONGEST_NOTE = 200
RUN_FILES = {*FILES, *ERRORS, STATUS, "params.json"}


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        path: Its folder.
        description: Its settings.
        state: ``"finished"``, ``"unfinished"``, ``"crashed"``, ``"empty"`` or ``"unreadable"``.
        note: Remark for the reader.
        results: A row per result, see `results.Results.table`.
        method: Name of the replay method in the report.
        full_name: The method with its settings, if `method` is a short form.
        repeats: Whether another run with the same settings and seed counts instead.
    """

    path: Path
    description: Description
    state: str
    note: str = ""
    results: pd.DataFrame = field(default_factory=pd.DataFrame)
    method: str = ""
    full_name: str = ""
    repeats: bool = False

    @property
    def algorithm(self) -> str:
        """Name of the algorithm, such as ``"SAC"``."""
        return self.description.algorithm

    @property
    def env(self) -> str:
        """Id of the environment."""
        return self.description.env

    @property
    def steps(self) -> int:
        """Environment steps of the last result."""
        return int(self.results["env_steps"].iloc[-1]) if len(self.results) else 0

    def has(self, column: str) -> bool:
        """Return whether any result has a number in this column."""
        return column in self.results and bool(self.results[column].notna().any())


def read_runs(folders: Iterable[Path]) -> list[Run]:
    """Return all runs in and below some folders, sorted by path.

    Raises:
        UsageError: A folder does not exist, or none contains a run.
    """
    listed = list(folders)
    for folder in listed:
        if not folder.is_dir():
            reason = "is not a folder" if folder.exists() else "does not exist"
            raise UsageError(
                f"{folder} {reason}; expected a folder with results, such as custom_training.py's --output_dir"
            )
    forget()
    paths = sorted({path.resolve() for folder in listed for path in _run_folders(folder)})
    runs = [_read(path) for path in paths]
    if not any(
        run.state != EMPTY or run.description.settings or run.path.name in planned(run.path.parent) for run in runs
    ):
        shown = ", ".join(map(str, listed))
        raise UsageError(f"no runs in {shown}; the folder of a run contains result.json, progress.csv or params.json")
    names = method_names(run.description for run in runs)
    named = []
    for run, (short, full) in zip(runs, names, strict=True):
        named.append(replace(run, method=printable(short), full_name=printable(full)))
    return _mark_repeats(named)


def _run_folders(top: Path) -> Iterator[Path]:
    """Yield folders with the files of a run, empty folders, and the planned runs of studies.

    Symbolic links are followed. Each folder is entered once, so that circular links end.
    """
    entered = {os.path.realpath(top)}
    for folder, below, files in os.walk(top, followlinks=True):
        if STUDY in files:
            place = Path(folder).resolve()
            yield from (place / name for name in planned(place))
            if damage(place):
                yield place
        if RUN_FILES & set(files) or not (files or below):
            below.clear()
            yield Path(folder)
        kept = []
        for name in sorted(below):
            target = os.path.realpath(os.path.join(folder, name))
            if not name.startswith((".", "checkpoint_", "best_checkpoint_")) and target not in entered:
                entered.add(target)
                kept.append(name)
        below[:] = kept


def _read(path: Path) -> Run:
    """Return the run in a folder, with names and a note that can be written to UTF-8 files."""
    description = Description()
    results = Results(pd.DataFrame())
    state = UNREADABLE
    note = damage(path)
    if not note:
        try:
            description = _description(path)
            found = read_results(path)
            state, note = _state(path, description, found)
            note = "; ".join(filter(None, [note, found.note]))
            results = found
        except Exception as error:  # damaged files
            note = " ".join(str(error).replace(f"{path}{os.sep}", "").split())[:LONGEST_NOTE]
            if not isinstance(error, OSError | ValueError):
                note = f"damaged files ({type(error).__name__}: {note})"
    description = replace(
        description,
        algorithm=printable(description.algorithm),
        env=printable(description.env),
        buffer=printable(description.buffer),
    )
    return Run(path, description, state, printable(note), results.table)


def _description(path: Path) -> Description:
    """Return the settings of a run; a study gives its method another name."""
    found = describe(path)
    plan = planned(path.parent).get(path.name)
    if plan is None:
        return found
    return replace(plan, total=found.total, settings=found.settings, arguments=found.arguments)


def _state(path: Path, description: Description, results: Results) -> tuple[str, str]:
    """Return the state of a run and a note about it."""
    error = next((path / name for name in ERRORS if (path / name).is_file()), None)
    if not len(results.table):
        if error:
            return CRASHED, f"before its first result: {_last_line(error)}"
        return EMPTY, "no result yet" if path.is_dir() else "not started"
    steps = int(results.table["env_steps"].iloc[-1])
    last = results.table["timestamp"].iloc[-1]
    if results.done or (description.total is not None and steps >= description.total):
        return FINISHED, "resumed after an error" if error else ""
    progress = f"{steps:,} of {description.total:,} steps" if description.total else f"{steps:,} steps"
    file = path / STATUS
    status = json.loads(file.read_text()) if file.is_file() else {}
    status = status if isinstance(status, dict) else {}
    if status.get("state") == "failed":
        failures = status.get("failures")
        failure = str(failures[-1]) if failures and isinstance(failures, list) else "no more attempts"
        return CRASHED, f"after {progress}: {failure[:LONGEST_NOTE]}"
    if status.get("state") == "stopped early":
        return UNFINISHED, f"{progress}, stopped early by the study's scheduler"
    resumed = error is not None and pd.notna(last) and last > error.stat().st_mtime
    if error and not resumed:
        return CRASHED, f"after {progress}: {_last_line(error)}"
    try:
        time = f", last result {datetime.fromtimestamp(last, timezone.utc):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):  # not a time
        time = ""
    return UNFINISHED, f"{progress}, running or stopped{time}"


def _last_line(error: Path) -> str:
    """Return the last line of a traceback."""
    text = error.with_name("error.txt")
    lines = text.read_text(errors="replace").strip().splitlines() if text.is_file() else []
    return lines[-1].strip()[:LONGEST_NOTE] if lines else f"see {error.name}"


def _mark_repeats(runs: list[Run]) -> list[Run]:
    """Mark all but one of the runs with the same settings and seed; the one with the most steps counts."""

    def key(run: Run) -> tuple[str, str, str, int | None]:
        return run.algorithm, run.env, run.method, run.description.seed

    best: dict[tuple[str, str, str, int | None], Run] = {}
    for run in runs:
        if run.description.seed is None or not len(run.results):
            continue
        other = best.setdefault(key(run), run)
        if (run.state == FINISHED, run.steps) > (other.state == FINISHED, other.steps):
            best[key(run)] = run
    marked = []
    for run in runs:
        if len(run.results) and best.get(key(run), run) is not run:
            note = "; ".join(filter(None, [run.note, "same settings and seed as another run"]))
            run = replace(run, repeats=True, note=note)
        marked.append(run)
    return marked
