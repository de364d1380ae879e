"""Runs on disk: finds their folders, reads them, and says what state each is in."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pandas as pd

from interreplay.errors import UsageError
from interreplay.experiments.report.reading.planned_runs import NAME as STUDY
from interreplay.experiments.report.reading.planned_runs import damage, forget, planned
from interreplay.experiments.report.reading.results import FILES, Results, read_results
from interreplay.experiments.report.reading.settings import Description, describe, method_names, printable

FINISHED, UNFINISHED, CRASHED, EMPTY, UNREADABLE = "finished", "unfinished", "crashed", "empty", "unreadable"
STATES = (FINISHED, UNFINISHED, CRASHED, EMPTY, UNREADABLE)
ERRORS = ("error.txt", "error.pkl")
STATUS = "status.json"
"""Where cluster_run.py says what became of a run."""
MOST_OF_A_NOTE = 200
"""Characters of a message that are shown."""
MARKS = {*FILES, *ERRORS, STATUS, "params.json"}


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        path: Its folder.
        description: Its settings.
        method: The replay method's name in the report.
        full_name: What this stands for.
        state: One of `STATES`.
        note: What is to be said about it.
        results: A row per result, see `results.Results.table`.
        repeats: Whether another run with the same settings and seed stands for it.
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
        """Such as ``"SAC"``."""
        return self.description.algorithm

    @property
    def env(self) -> str:
        """The environment's id."""
        return self.description.env

    @property
    def steps(self) -> int:
        """Environment steps of the last result."""
        return int(self.results["env_steps"].iloc[-1]) if len(self.results) else 0

    def has(self, column: str) -> bool:
        """Return whether any result has a number in this column."""
        return column in self.results and bool(self.results[column].notna().any())


def read_runs(folders: Iterable[Path]) -> list[Run]:
    """Return all runs in and below some folders, in the order of their paths.

    Raises:
        UsageError: A folder does not exist, or none holds a run.
    """
    listed = list(folders)
    for folder in listed:
        if not folder.is_dir():
            found = "is no folder" if folder.exists() else "does not exist"
            raise UsageError(
                f"{folder} {found}; expected a folder with results, such as custom_training.py's --output_dir"
            )
    forget()
    paths = sorted({path.resolve() for folder in listed for path in _run_folders(folder)})
    runs = [_printable(_read(path)) for path in paths]
    if not any(run.state != EMPTY or run.description.settings or _is_planned(run) for run in runs):
        shown = ", ".join(map(str, listed))
        raise UsageError(f"no runs in {shown}; a run's folder holds result.json, progress.csv or params.json")
    names = method_names(run.description for run in runs)
    named = [
        replace(run, method=printable(short), full_name=printable(full))
        for run, (short, full) in zip(runs, names, strict=True)
    ]
    return _mark_repeats(named)


def _printable(run: Run) -> Run:
    """Return a run with names and a note that can be written to UTF-8 files."""
    found = run.description
    texts = replace(
        found, algorithm=printable(found.algorithm), env=printable(found.env), buffer=printable(found.buffer)
    )
    return replace(run, description=texts, note=printable(run.note))


def _is_planned(run: Run) -> bool:
    return run.path.name in planned(run.path.parent)


def _run_folders(top: Path) -> Iterator[Path]:
    """Yield folders with a run's files, empty ones, which a run may have died in, and those of a study's plan.

    Symbolic links are followed; each folder is entered once, so that links in a circle end.
    """
    entered = {os.path.realpath(top)}
    for folder, below, files in os.walk(top, followlinks=True):
        if STUDY in files:
            place = Path(folder).resolve()
            yield from (place / name for name in planned(place))
            if damage(place):
                yield place
        if MARKS & set(files) or not (files or below):
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
    if reason := damage(path):
        return Run(path, Description(), UNREADABLE, reason)
    try:
        description = _described(path)
        results = read_results(path)
        state, note = _state(path, description, results)
    except Exception as error:  # whatever damaged files lead to
        reason = " ".join(str(error).replace(f"{path}{os.sep}", "").split())[:MOST_OF_A_NOTE]
        if not isinstance(error, OSError | ValueError):
            reason = f"damaged files ({type(error).__name__}: {reason})"
        return Run(path, _described_at_least(path), UNREADABLE, reason)
    return Run(path, description, state, "; ".join(filter(None, [note, results.note])), results.table)


def _described(path: Path) -> Description:
    """Return the settings of a run; in a study its method is what the study calls it."""
    plan = planned(path.parent).get(path.name)
    found = describe(path)
    return (
        found if plan is None else replace(plan, total=found.total, settings=found.settings, arguments=found.arguments)
    )


def _described_at_least(path: Path) -> Description:
    """Return as much as can be known of a run some of whose files cannot be read."""
    try:
        return _described(path)
    except Exception:  # whatever damaged files lead to
        return Description()


def _state(path: Path, description: Description, results: Results) -> tuple[str, str]:
    """Return the state, and what is to be said of it."""
    error = next((path / name for name in ERRORS if (path / name).is_file()), None)
    if not len(results.table):
        return (
            (CRASHED, f"before its first result: {_reason(error)}")
            if error
            else (EMPTY, "no result yet" if path.is_dir() else "not begun")
        )
    steps, last = int(results.table["env_steps"].iloc[-1]), results.table["timestamp"].iloc[-1]
    if results.done or (description.total is not None and steps >= description.total):
        return FINISHED, "went on after an error" if error else ""
    of = f" of {description.total:,}" if description.total else ""
    went_on = error is not None and pd.notna(last) and last > error.stat().st_mtime
    status = _status(path)
    if status.get("state") == "failed":
        failures = status.get("failures")
        last_failure = str(failures[-1]) if failures and isinstance(failures, list) else "given up"
        return CRASHED, f"after {steps:,}{of} steps: {last_failure[:MOST_OF_A_NOTE]}"
    if status.get("state") == "stopped early":
        return UNFINISHED, f"{steps:,}{of} steps, stopped early by the study's scheduler"
    if error and not went_on:
        return CRASHED, f"after {steps:,}{of} steps: {_reason(error)}"
    return UNFINISHED, f"{steps:,}{of} steps, running or stopped{_since(last)}"


def _since(timestamp: float) -> str:
    """Return the end of a note with the time of the last result, "" where it is not a time."""
    try:
        return f", last result {datetime.fromtimestamp(timestamp, timezone.utc):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return ""


def _status(path: Path) -> dict[str, Any]:
    file = path / STATUS
    found = json.loads(file.read_text()) if file.is_file() else {}
    return found if isinstance(found, dict) else {}


def _reason(error: Path) -> str:
    """Return the last line of a traceback."""
    text = error.with_name("error.txt")
    lines = text.read_text(errors="replace").strip().splitlines() if text.is_file() else []
    return lines[-1].strip()[:MOST_OF_A_NOTE] if lines else f"see {error.name}"


def _mark_repeats(runs: list[Run]) -> list[Run]:
    """Return of runs with the same settings and seed the one that got furthest stands for all, the first of equals."""
    best: dict[tuple[str, str, str, int], Run] = {}
    for run in runs:
        seed = run.description.seed
        if seed is not None and len(run.results):
            key = run.algorithm, run.env, run.method, seed
            if key not in best or (run.state == FINISHED, run.steps) > (best[key].state == FINISHED, best[key].steps):
                best[key] = run
    stands = {id(run) for run in best.values()}
    return [
        run
        if id(run) in stands or run.description.seed is None or not len(run.results)
        else replace(
            run, repeats=True, note="; ".join(filter(None, [run.note, "same settings and seed as another run"]))
        )
        for run in runs
    ]
