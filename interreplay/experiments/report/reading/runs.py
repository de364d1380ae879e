"""Find and read the runs below result folders, and determine their states."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path

import pandas as pd

from interreplay.errors import UsageError
from interreplay.experiments.report.reading.settings import Description, describe, method_names
from interreplay.experiments.studies.study import STUDY
from interreplay.experiments.studies.study_folder import FAILED, STOPPED, StudyFolder, TrialFolder
from interreplay.runs.results.reader import FILES, NAMES, drop_repeated, number, read_named, read_rows
from interreplay.runs.run_folder import STATUS

FINISHED = "finished"
UNFINISHED = "unfinished"
CRASHED = "crashed"
EMPTY = "empty"
UNREADABLE = "unreadable"
ERROR = "error.txt"
LONGEST_NOTE = 200
RUN_FILES = {*FILES, ERROR, STATUS, "params.json"}
REPLAY = "replay_buffer/"
LEARNED = "learners/default_policy/"
UNROLL_METRICS = ("rho_mean", "rho_clipped_share", "kl_to_behavior", "kept_share", "effective_sample_size")
"""Metrics of updates from unrolls that are read as diagnostics of replay."""


def read_results(folder: Path) -> tuple[pd.DataFrame, bool, str]:
    """Return the results in the folder of a run, whether Tune marked it as done, and problems of the file.

    The table has a row per result with rising env_steps: the columns of `NAMES`, and diagnostics as
    ``replay_buffer/...``.
    """
    found, note = read_rows(folder)
    rows = []
    for reported in drop_repeated(found):
        row = {name: read_named(reported, name) for name in NAMES}
        for name, value in reported.items():
            if name.startswith(REPLAY):
                row[name] = number(value)
            elif name.removeprefix(LEARNED) in UNROLL_METRICS:
                row[REPLAY + name.removeprefix(LEARNED)] = number(value)
        rows.append(row)
    done = bool(found) and bool(found[-1].get("done"))
    return pd.DataFrame(rows, dtype=float), done, note


@dataclass(frozen=True)
class Run:
    """One run.

    Its `state` is ``"finished"``, ``"unfinished"``, ``"crashed"``, ``"empty"`` or ``"unreadable"``. `results` has a row
    per result, see `read_results`. `method` is the name of the replay method in the report; if it is a short form,
    `full_name` adds the settings. A run `repeats` if another run with the same settings and seed counts instead.
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
    list_planned_runs.cache_clear()
    listed = list(folders)
    paths: set[Path] = set()
    for folder in listed:
        if not folder.is_dir():
            raise UsageError(
                f"{folder} is not a folder; expected a folder with results, such as interreplay train's --output_dir"
            )
        paths.update(map(Path.resolve, _run_folders(folder)))
    runs = list(map(_read, sorted(paths)))
    if not any(run.state != EMPTY or run.description != Description() for run in runs):
        shown = ", ".join(map(str, listed))
        raise UsageError(f"no runs in {shown}; the folder of a run contains result.json and params.json")
    names = method_names(list(map(attrgetter("description"), runs)))
    found = []
    for run, (short, full) in zip(runs, names, strict=True):
        found.append(replace(run, method=short, full_name=full))
    return _mark_repeats(found)


@functools.lru_cache(maxsize=64)
def list_planned_runs(folder: Path) -> dict[str, Description]:
    """Return the runs of a study by folder name, including runs without a folder; none for other folders."""
    if not (folder / STUDY).is_file():
        return {}
    found = {}
    for run in StudyFolder(folder).read().runs:
        found[run.name] = Description(str(run.trainer), str(run.env), str(run.label), run.seed)
    return found


def _run_folders(top: Path) -> Iterator[Path]:
    """Yield folders with the files of a run, empty folders, the planned runs of studies, and unreadable studies.

    Symbolic links are followed. Each folder is entered once, so that circular links end.
    """
    entered = {os.path.realpath(top)}
    for folder, below, files in os.walk(top, followlinks=True):
        if STUDY in files:
            try:
                yield from map(Path(folder).resolve().joinpath, list_planned_runs(Path(folder).resolve()))
            except UsageError:
                yield Path(folder)
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
    """Return the run in a folder."""
    description = Description()
    try:
        list_planned_runs(path)  # raises an error for the folder of an unreadable study
        description = describe(path)
        with contextlib.suppress(UsageError):  # reported for the study's folder
            plan = list_planned_runs(path.parent).get(path.name)
            if plan is not None:  # its label replaces the name of the method
                read = description
                description = replace(
                    plan, total=read.total, settings=read.settings, arguments=read.arguments, parent=read.parent
                )
        table, done, problem = read_results(path)
        state, note = _state(path, description, table, done=done)
        return Run(path, description, state, note="; ".join(filter(None, [note, problem])), results=table)
    except Exception as error:  # damaged files
        note = " ".join(str(error).replace(f"{path}{os.sep}", "").split())[:LONGEST_NOTE]
        return Run(path, description, UNREADABLE, note or f"damaged files ({type(error).__name__})")


def _state(path: Path, description: Description, table: pd.DataFrame, done: bool) -> tuple[str, str]:
    """Return the state of a run and a note about it."""
    error = path / ERROR
    begun = len(table) > 0
    progress = "no result yet"
    place = "before its first result"
    if begun:
        steps = int(table["env_steps"].iloc[-1])
        progress = f"{steps:,} steps"
        if description.total is not None:
            progress = f"{steps:,} of {description.total:,} steps"
        if done or (description.total is not None and steps >= description.total):
            return FINISHED, "resumed after an error" if error.is_file() else ""
        place = f"after {progress}"
    status = TrialFolder(path).status()
    if status["state"] == FAILED:  # also if its process was killed, or hung
        return CRASHED, f"{place}: {(status['failures'] or ['unknown error'])[-1][:LONGEST_NOTE]}"
    if begun and status["state"] == STOPPED:
        return UNFINISHED, f"{progress}, stopped early by the study's scheduler"
    if error.is_file() and not (begun and table["timestamp"].iloc[-1] > error.stat().st_mtime):
        lines = error.read_text(errors="replace").strip().split("\n")
        return CRASHED, f"{place}: {lines[-1].strip()[:LONGEST_NOTE] or 'unknown error'}"
    return (UNFINISHED, f"{progress}, running or stopped") if begun else (EMPTY, progress)


def _mark_repeats(runs: list[Run]) -> list[Run]:
    """Mark all but one of the runs with the same settings and seed; the one with the most steps counts."""
    groups: dict[object, list[int]] = {}
    for i, run in enumerate(runs):
        if run.description.seed is not None and len(run.results):
            key = [run.algorithm, run.env, run.method, run.description.seed, run.description.parent]
            if run.description.of_tune:  # also settings that some runs lack, which names do not contain
                key.append(repr(sorted(run.description.settings.items())))
            groups.setdefault(tuple(key), []).append(i)
    marked = list(runs)
    for members in groups.values():
        best = max(members, key=lambda i: (runs[i].state == FINISHED, runs[i].steps))
        for i in members:
            if i != best:
                note = "; ".join(filter(None, [runs[i].note, "same settings and seed as another run"]))
                marked[i] = replace(runs[i], repeats=True, note=note)
    return marked
