"""Hyperparameter search: settings drawn from Ray Tune's distributions, and Tune's schedulers, which stop bad runs."""

from __future__ import annotations

import ast
import functools
import importlib.util
import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from ray import tune
from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler, MedianStoppingRule, TrialScheduler
from ray.tune.search.optuna import OptunaSearch
from ray.tune.search.sample import Domain

from interreplay.errors import UsageError, did_you_mean
from interreplay.experiments.flags.replay_flags import list_method_arguments
from interreplay.experiments.flags.run_flags import FLAGS
from interreplay.experiments.studies.grid import with_values
from interreplay.experiments.studies.study import TPE, Job, PlannedRun, Study, StudyFolder
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.runs.results.reader import curve
from interreplay.runs.resume import as_plain

DISTRIBUTIONS = (
    *("uniform", "quniform", "loguniform", "qloguniform", "randn", "qrandn", "choice"),
    *("randint", "qrandint", "lograndint", "qlograndint"),
)
FORM = f"expected a distribution of Ray Tune such as randint(3,30); accepted: {', '.join(DISTRIBUTIONS)}"
Values = Mapping[str, Any]
"""Values of the searched settings by name."""
Slot = tuple[Values | None, Callable[[Values], Job]]
"""A run to be started, see `SequentialSearch`."""
ATTEMPTS = 100
"""Maximum number of draws for one run; invalid combinations are drawn again."""


def domains(search: Mapping[str, str]) -> dict[str, Domain]:
    """Return Tune's distributions for texts such as ``uniform(.2, 2)`` and ``choice([1, 5])``."""
    found = {}
    for name, text in search.items():
        try:
            call = ast.parse(str(text).strip(), mode="eval").body
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)) or call.keywords:
                raise SyntaxError
            if call.func.id not in DISTRIBUTIONS:
                raise SyntaxError
            arguments = as_plain(list(map(ast.literal_eval, call.args)))  # lists, as in study.yaml
            found[name] = getattr(tune, call.func.id)(*arguments)
            found[name].sample(random_state=np.random.RandomState(0))
        except SyntaxError:
            raise UsageError(f"search: {name}={text}: {FORM}") from None
        except Exception as error:  # raised by Tune for arguments that the distribution does not accept
            raise UsageError(f"search: {name}={text}: {' '.join(str(error).split())}; {FORM}") from None
    return found


def repeat_with_values(
    runs: Sequence[PlannedRun], search: Any, samples: int, searcher: str | None = None
) -> list[PlannedRun]:
    """Repeat each run that accepts a searched setting `samples` times, with new values each time.

    The n-th values of a replay method are equal for all environments and seeds. `search` holds distributions as texts,
    by flags or by arguments of the replay methods.
    """
    if not isinstance(search, dict) or not search:
        raise UsageError(f"search {search!r}: expected a mapping such as {{k: randint(3,30)}}")
    if searcher == TPE and len(runs) != 1:
        raise UsageError(
            f"--searcher {TPE} compares single runs, and the study has {len(runs)}; give one buffer, environment, "
            "trainer and seed, or --searcher random"
        )
    if searcher == TPE and importlib.util.find_spec("optuna") is None:
        raise UsageError(f"--searcher {TPE} needs optuna: pip install 'interreplay[search]'")
    found = domains(search)
    if searcher == TPE:
        distributions(found)
    known = set(FLAGS)
    planned: list[tuple[int, PlannedRun]] = []
    for run in runs:
        accepted = set(FLAGS)
        if not ALGORITHMS[run.trainer].unrolls:
            accepted.update(list_method_arguments(run.settings.buffer))
        known |= accepted
        taken = accepted & found.keys()
        if not taken:
            planned.append((0, run))
            continue
        for number in range(samples):
            values = {}
            for name in sorted(taken):
                key = f"{run.trainer} {run.label} {name} {number}"
                generator = np.random.RandomState(zlib.crc32(key.encode()))
                values[name] = as_plain(found[name].sample(random_state=generator))
            planned.append((number, with_values(replace(run, label=f"{run.label}_{number:03d}"), values)))
    unused = sorted(found.keys() - known)
    if unused:
        raise UsageError(
            f"search: no run has a setting {unused[0]!r}; {did_you_mean(unused[0], sorted(known))} accepted: arguments "
            "of the replay methods, and flags that interreplay train --help all lists"
        )
    planned.sort(key=itemgetter(0))
    return [run for _, run in planned]


def distributions(space: Mapping[str, Domain]) -> dict[str, Any]:
    """Return Optuna's distributions for distributions of Ray Tune."""
    try:
        return OptunaSearch.convert_search_space(dict(space))
    except ValueError as error:
        raise UsageError(f"search: {' '.join(str(error).split())}; --searcher random draws from it") from error


class SequentialSearch(OptunaSearch):
    """Optuna's tree-structured Parzen estimator, which proposes the settings of each run when it begins.

    In addition to Ray's class, it draws again after invalid combinations, and resumes interrupted runs.

    Args:
        space: Distributions of Ray Tune by setting.
        slots: For each run to be started, the values that it had before it was interrupted, None for a new run, and a
            function that returns its folder and settings for given values; it raises `UsageError` if they do not fit.
        before: Values and returns of finished runs.
    """

    def __init__(self, space: Mapping[str, Domain], slots: Sequence[Slot], before: Sequence[tuple[Values, float]]):
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        # Each start has its own seed, the number of draws so far: the same random numbers would repeat earlier draws.
        drawn = len(before) + sum(values is not None for values, _ in slots)
        super().__init__(distributions(space), metric="score", mode="max", seed=drawn)
        self._slots = list(slots)
        for values, value in before:
            if not math.isnan(value):
                self.add_evaluated_point(dict(values), value)

    def suggest(self, trial_id: str) -> Any:
        from optuna.trial import TrialState

        if not self._slots:
            return self.FINISHED
        known, job = self._slots.pop(0)
        if known is not None:
            self._ot_study.enqueue_trial(dict(known))
        for _ in range(ATTEMPTS):
            values = super().suggest(trial_id)
            try:
                folder, settings = job(known or values)
                return {"job": {"folder": str(folder), "settings": settings}}
            except UsageError as error:
                reason = error
                self._ot_study.tell(self._ot_trials.pop(trial_id), state=TrialState.FAIL)
        raise UsageError(f"search: none of {ATTEMPTS} draws of Optuna can run; the last one: {reason}")

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Do nothing: only final results count."""

    def __deepcopy__(self, memo: dict[int, Any]) -> SequentialSearch:
        """Return the searcher itself, which Tune would copy."""
        return self

    def save(self, checkpoint_path: str) -> None:
        """Write an empty file, which Tune expects: studies resume from the folders of their runs."""
        Path(checkpoint_path).touch()


def sequential(
    study: Study, folder: StudyFolder, make_run_settings: Callable[[PlannedRun], dict[str, Any]]
) -> SequentialSearch:
    """Return the search that draws the remaining runs of a study, given the previous results."""

    def job(run: PlannedRun, values: Values) -> Job:
        settings = make_run_settings(with_values(run, values))
        folder.trial(run).note_drawn(dict(values))
        return folder.path.absolute() / run.name, settings

    left = []
    before = []
    for run in study.runs:
        trial = folder.trial(run)
        drawn = trial.drawn()
        if not trial.is_over:
            left.append((drawn, functools.partial(job, run)))
        elif drawn is not None:  # the file may have been damaged and removed
            points = curve(trial.path)
            newest = points[-1][1] if points else math.nan
            before.append((drawn, newest))
    return SequentialSearch(domains(study.execution.search), left, before)


def scheduler(name: str, settings: Iterable[Mapping[str, Any]]) -> TrialScheduler:
    """Return a scheduler of Tune for the settings of runs: ``fifo``, which stops no run, ``asha`` or ``median``."""
    if name == "fifo":
        return FIFOScheduler()
    most = 0  # env steps of a run
    each = 0  # env steps between results
    for run in settings:
        most = max(most, run["total_env_steps"])
        each = max(each, run["steps_per_iteration"] * max(1, run["evaluation_interval"]))
    common: dict[str, Any] = {"time_attr": "env_steps", "metric": "score", "mode": "max"}
    common["grace_period"] = min(most, max(each, most // 9))
    if name == "median":
        return MedianScheduler(**common, min_time_slice=math.inf)  # never pauses a run
    return AsyncHyperBandScheduler(**common, max_t=most, reduction_factor=3, stop_last_trials=False)


class MedianScheduler(MedianStoppingRule):
    """Tune's median stopping rule, which accepts runs that end before their first evaluation."""

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        if "score" in result:
            super().on_trial_complete(tune_controller, trial, result)
