"""A run of a study as a trial of Ray Tune's."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from ray import tune

from interreplay.experiments.tune.signal_actor import listen
from interreplay.experiments.tune.study_run import PermanentFailure, StudyRun
from interreplay.rllib import ray_session


class Trial(tune.Trainable):
    """A `StudyRun` in a process of Ray's; an iteration of the run is one of Tune's."""

    def setup(self, config: dict[str, Any], signals: Any = None) -> None:
        """Take the run's folder; ``config["job"]`` holds ``folder``, ``settings``, ``hang_timeout``, ``uri``."""
        config = config["job"]
        ray_session.quiet()
        threads = config["settings"]["threads"]
        torch.set_num_threads(threads)
        self._run = StudyRun(Path(config["folder"]), config["settings"], config["hang_timeout"], config["uri"])
        listen(signals, self._run.ask)
        self._results = self._run.results()
        self._entered = False
        self._score: dict[str, float] = {}
        self._last: dict[str, Any] = {"env_steps": 0, "return": float("nan"), "evaluation_return": float("nan")}

    def step(self) -> dict[str, Any]:
        """Return one iteration of the run; the last one says so with ``done``."""
        try:
            if not self._entered:  # here and not in setup, after whose failures Tune would not try again
                self._run.__enter__()
                self._entered = True
            self._last = next(self._results)
            self._score.update(scored(self._last))
        except (StopIteration, PermanentFailure):
            self._leave()
            status = self._run.folder.status()
            self._last |= {"done": True, "env_steps": status["env_steps"], "reason": status.get("reason", "")}
        except BaseException:
            self._leave()
            raise
        return self._last | self._score | {"state": self._run.over}

    def _leave(self) -> None:
        if self._entered:
            self._run.__exit__()
        self._entered = False

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        """Return nothing: a run saves by itself, into its own folder."""
        return {}

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Do nothing: a run is resumed from its own folder."""

    def cleanup(self) -> None:
        """Close the run at the end, also where a scheduler ends the trial before its time."""
        if self._entered:
            self._results.close()
            self._run.ended_from_outside()
            self._leave()


def scored(figures: dict[str, Any]) -> dict[str, float]:
    """Return what schedulers compare: the return of the newest evaluation, or of training where there is none."""
    value = figures["return" if figures["evaluations"] == 0 else "evaluation_return"]
    return {} if math.isnan(value) else {"score": value}
