"""A sequential search: Optuna's tree-structured Parzen estimator proposes the settings of each run when it begins."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ray.tune.search import Searcher
from ray.tune.search.sample import Domain

from interreplay.errors import UsageError

Values = Mapping[str, Any]
"""Values of the searched settings by name."""
ATTEMPTS = 100
"""Maximum number of draws for one run; values that do not fit each other are drawn again."""


class Slot(NamedTuple):
    """A run that the search is to start.

    Attributes:
        values: Values that were drawn for the run before it was interrupted; None for a new run.
        job: Returns the folder and settings of the run for given values. Raises `UsageError` if they do not fit.
    """

    values: Values | None
    job: Callable[[Values], tuple[Path, dict[str, Any]]]


def distributions(space: Mapping[str, Domain]) -> dict[str, Any]:
    """Return Optuna's distributions for distributions of Ray Tune.

    Raises:
        UsageError: Optuna has no such distribution.
    """
    from ray.tune.search.optuna import OptunaSearch

    try:
        return OptunaSearch.convert_search_space(dict(space))
    except ValueError as error:
        raise UsageError(f"search: {' '.join(str(error).split())}; --searcher random draws from it") from error


class SequentialSearch(Searcher):
    """Ray Tune's searcher around an Optuna study that knows the results of earlier runs.

    Ray's own ``OptunaSearch`` draws values that do not fit each other, and cannot resume runs that were interrupted.

    Args:
        space: Distributions of Ray Tune by setting.
        slots: The runs to start, in order.
        before: Values and returns of finished runs.
        seed: Seed of the draws.

    Attributes:
        configured: Further entries of each trial's configuration.

    Raises:
        UsageError: Optuna does not have one of the distributions.
    """

    def __init__(
        self, space: Mapping[str, Domain], slots: Sequence[Slot], before: Sequence[tuple[Values, float]], seed: int = 0
    ):
        super().__init__(metric="score", mode="max")
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space = distributions(space)
        self._slots = list(slots)
        self._trials: dict[str, Any] = {}
        self.configured: dict[str, Any] = {}
        known = [(dict(values), value) for values, value in before if not math.isnan(value)]
        # Each start has its own seed: the same random numbers would repeat the draws of the previous start.
        sampler = optuna.samplers.TPESampler(seed=seed + len(known))
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        for values, value in known:
            self._study.add_trial(optuna.trial.create_trial(params=values, distributions=self._space, value=value))

    def suggest(self, trial_id: str) -> Any:
        if not self._slots:
            return Searcher.FINISHED
        slot = self._slots.pop(0)
        if slot.values is not None:
            self._study.enqueue_trial(dict(slot.values))
        for _ in range(ATTEMPTS):
            trial = self._study.ask(self._space)
            try:
                folder, settings = slot.job(slot.values or trial.params)
            except UsageError as error:
                reason = error
                self._fail(trial)
                continue
            self._trials[trial_id] = trial
            return {"job": {"folder": str(folder), "settings": settings, **self.configured}}
        raise UsageError(f"search: none of {ATTEMPTS} draws of Optuna can run; the last one: {reason}")

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        trial = self._trials.pop(trial_id)
        if error or not result or "score" not in result:
            self._fail(trial)
        else:
            self._study.tell(trial, result["score"])

    def _fail(self, trial: Any) -> None:
        from optuna.trial import TrialState

        self._study.tell(trial, state=TrialState.FAIL)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Do nothing: only final results count."""

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing for Tune's own snapshots: studies resume from the folders of their runs."""
        return {}

    def __deepcopy__(self, memo: dict[int, Any]) -> SequentialSearch:
        """Return the searcher itself, which Tune would copy."""
        return self

    def save(self, checkpoint_path: str) -> None:
        """Write an empty file, which Tune expects."""
        Path(checkpoint_path).touch()

    def restore(self, checkpoint_path: str) -> None:
        """Do nothing."""
