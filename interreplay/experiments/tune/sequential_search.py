"""A search that decides one run after another by what those before came to: Optuna's, through Ray Tune."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher
from ray.tune.search.sample import Domain

from interreplay.errors import UsageError

Values = Mapping[str, Any]
"""Of searched settings by name."""
ATTEMPTS = 100
"""How often values are drawn anew that do not fit each other."""


class Slot(NamedTuple):
    """A run of a search that is to be carried out.

    Attributes:
        values: That were drawn for it in an earlier start, None where there are none.
        job: Returns its folder and settings for these or for other values; raises `UsageError` where they do not fit.
    """

    values: Values | None
    job: Callable[[Values], tuple[Path, dict[str, Any]]]


def distributions(space: Mapping[str, Domain]) -> dict[str, Any]:
    """Return Optuna's distributions for those of Ray Tune.

    Raises:
        UsageError: Optuna does not have one.
    """
    from ray.tune.search.optuna import OptunaSearch

    try:
        return OptunaSearch.convert_search_space(dict(space))
    except ValueError as error:
        raise UsageError(f"search: {' '.join(str(error).split())}; --searcher random draws from it") from error


class SequentialSearch(Searcher):
    """Optuna's tree-structured Parzen estimator, told what earlier runs of the study came to.

    Runs that were interrupted are resumed with the values that they had; others get values when they begin.

    Args:
        space: Distributions of Ray Tune by setting.
        slots: The runs that are left, in the order in which they are started.
        before: Values and returns of the runs that are over.
        seed: Of the draws.

    Attributes:
        configured: What the configuration of every trial has beside folder and settings.

    Raises:
        UsageError: A distribution is one that Optuna does not have.
    """

    def __init__(
        self, space: Mapping[str, Domain], slots: Sequence[Slot], before: Sequence[tuple[Values, float]], seed: int = 0
    ):
        super().__init__(metric="score", mode="max")
        from ray.tune.search.optuna import OptunaSearch

        logging.getLogger("optuna").setLevel(logging.ERROR)
        known = [(dict(values), value) for values, value in before if not math.isnan(value)]
        points, returns = ([one[i] for one in known] for i in (0, 1))
        self._optuna = OptunaSearch(
            distributions(space),
            metric="score",
            mode="max",
            points_to_evaluate=points or None,
            evaluated_rewards=returns or None,
            # Another one for each start: draws of the same numbers as in the last would be made of other results.
            seed=seed + len(known),
        )
        self._slots, self.configured = list(slots), dict[str, Any]()

    def suggest(self, trial_id: str) -> Any:
        if not self._slots:
            return Searcher.FINISHED
        slot = self._slots.pop(0)
        if slot.values is not None:
            return self._config(slot, self._enqueued(trial_id, slot.values))
        for _ in range(ATTEMPTS):
            try:
                return self._config(slot, self._optuna.suggest(trial_id))
            except UsageError as error:  # they do not fit each other: Optuna is told, and asked again
                reason = error
                self._optuna.on_trial_complete(trial_id, error=True)
                self._forget(trial_id)
        raise UsageError(f"search: {ATTEMPTS} draws of Optuna's cannot be run, the last one: {reason}")

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        if "score" in result:
            self._optuna.on_trial_result(trial_id, result)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self._optuna.on_trial_complete(trial_id, result, error)

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing: Tune pickles what it may restore from, and here nobody restores from that."""
        return {}

    def __deepcopy__(self, memo: dict[int, Any]) -> SequentialSearch:
        """Return itself: it stands for the one study."""
        return self

    def save(self, checkpoint_path: str) -> None:
        """Write an empty file: what is done is read from the runs' own folders."""
        Path(checkpoint_path).touch()

    def restore(self, checkpoint_path: str) -> None:
        """Do nothing."""

    def _config(self, slot: Slot, values: Values) -> dict[str, Any]:
        folder, settings = slot.job(values)
        return {"job": {"folder": str(folder), "settings": settings, **self.configured}}

    def _enqueued(self, trial_id: str, values: Values) -> Values:
        """Let Optuna's next trial have these values, and return them."""
        self._optuna._ot_study.enqueue_trial(dict(values))
        self._optuna.suggest(trial_id)
        return values

    def _forget(self, trial_id: str) -> None:
        self._optuna._ot_trials.pop(trial_id, None)
        self._optuna._completed_trials.discard(trial_id)


class MedianScheduler(FIFOScheduler):
    """Ends runs whose best return so far is below the median of the others' at the same step: Optuna's median pruner.

    Args:
        before: Env steps and returns of runs that are over.
        grace: Env steps that every run has.
        first: Runs that are over before any is ended.
    """

    def __init__(self, before: Sequence[Sequence[tuple[int, float]]], grace: int, first: int = 3):
        super().__init__()
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        pruner = optuna.pruners.MedianPruner(n_startup_trials=first, n_warmup_steps=grace)
        self._study = optuna.create_study(direction="maximize", pruner=pruner)
        self._trials: dict[str, Any] = {}
        for curve in before:
            trial = self._study.ask()
            for steps, value in curve:
                trial.report(value, steps)
            self._study.tell(trial, curve[-1][1] if curve else None, state=None if curve else _failed())

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        if "score" not in result or result.get("done"):
            return self.CONTINUE
        if trial.trial_id not in self._trials:
            self._trials[trial.trial_id] = self._study.ask()
        mine = self._trials[trial.trial_id]
        mine.report(result["score"], int(result["env_steps"]))
        return self.STOP if mine.should_prune() else self.CONTINUE

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        if (mine := self._trials.pop(trial.trial_id, None)) is not None:
            self._study.tell(mine, result.get("score"))


def _failed() -> Any:
    from optuna.trial import TrialState

    return TrialState.FAIL
