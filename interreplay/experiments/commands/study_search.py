"""Searches in studies: their runs, the settings drawn so far, and the search that draws the remaining settings."""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from interreplay.errors import UsageError
from interreplay.experiments.studies.grid import with_values
from interreplay.experiments.studies.study import TPE, Job, PlannedRun, Study
from interreplay.experiments.studies.study_folder import StudyFolder
from interreplay.runs.results.reader import curve


def searched(runs: list[PlannedRun], given: Mapping[str, Any]) -> list[PlannedRun]:
    """Return the runs; runs that accept searched settings are repeated for every draw."""
    search = given["search"]
    one_by_one = given.get("searcher") == TPE
    if search is None:
        if one_by_one:
            raise UsageError(f"--searcher {TPE} needs --search, the settings to be searched")
        return runs
    if not isinstance(search, dict) or not search:
        raise UsageError(f"search {search!r}: expected a mapping such as {{k: randint(3,30)}}")
    if one_by_one and len(runs) != 1:
        raise UsageError(
            f"--searcher {TPE} compares single runs, and the study has {len(runs)}; give one buffer, environment, "
            "trainer and seed, or --searcher random"
        )
    from interreplay.experiments.tune.hyperparameter_search import distributions, domains, sampled

    if one_by_one:
        if importlib.util.find_spec("optuna") is None:
            raise UsageError(f"--searcher {TPE} needs optuna: pip install 'interreplay[search]'")
        distributions(domains(search))
    return sampled(runs, search, given["num_samples"] or 10)


def check_search(study: Study, given: Mapping[str, Any]) -> None:
    """Reject a search that cannot be executed."""
    how = study.execution
    if "run" in given and how.searcher == TPE:
        raise UsageError(
            f"--run {given['run']}: --searcher {TPE} draws one run after another; leave --run out, "
            "and use submit.py concurrent instead of single"
        )
    if how.scheduler != "fifo" and len({run.env for run in study.runs}) > 1:
        raise UsageError(f"--scheduler {how.scheduler} compares returns, so it supports one environment only")


def with_draws(study: Study, folder: StudyFolder) -> Study:
    """Return a study with the values drawn so far, if they are drawn one after another."""
    if study.execution.searcher != TPE:
        return study
    runs = []
    for run in study.runs:
        values = folder.trial(run).drawn()
        if values is None:
            runs.append(replace(run, sampled={}))  # its values are drawn when it starts
        else:
            runs.append(with_values(run, values))
    return replace(study, runs=runs)


def sequential(study: Study, folder: StudyFolder, settings_of: Callable[[PlannedRun], dict[str, Any]]) -> Any:
    """Return the search that draws the remaining runs, given the previous results; None if all were drawn before."""
    if study.execution.searcher != TPE:
        return None
    from interreplay.experiments.tune.hyperparameter_search import SequentialSearch, Slot, domains

    def job(run: PlannedRun, values: Mapping[str, Any]) -> Job:
        settings = settings_of(with_values(run, values))
        folder.trial(run).note_drawn(dict(values))
        return folder.path.absolute() / run.name, settings

    left = []
    before = []
    for run in study.runs:
        trial = folder.trial(run)
        if trial.is_over:
            newest = [value for _, value in curve(trial.path)[-1:]] or [math.nan]
            before.append((trial.drawn() or {}, newest[0]))
        else:
            left.append(Slot(trial.drawn(), functools.partial(job, run)))
    return SequentialSearch(domains(study.execution.search), left, before)
