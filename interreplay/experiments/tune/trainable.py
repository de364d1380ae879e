"""A run of a study as a trial of Ray Tune."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from ray import tune

from interreplay.experiments.tune.signal_actor import listen
from interreplay.experiments.tune.study_run import NOT_STARTED, PermanentFailure, StudyRun
from interreplay.rllib import ray_session
from interreplay.runs.state_files.disk import FolderInUse


class Trial(tune.Trainable):
    """A `StudyRun` in a process of Ray. An iteration of the run is an iteration of Tune."""

    def setup(self, config: dict[str, Any], signals: Any = None) -> None:
        """Prepare the run: ``config["job"]`` holds ``folder``, ``settings`` and ``hang_timeout``."""
        job = config["job"]
        ray_session.quiet()
        torch.set_num_threads(job["settings"]["threads"])
        self._run = StudyRun(Path(job["folder"]), job["settings"], job["hang_timeout"])
        listen(signals, self._run.ask)
        self._results = self._run.results()
        self._entered = False
        self._score: dict[str, float] = {}
        self._last: dict[str, Any] = {"env_steps": 0, "return": math.nan, "evaluation_return": math.nan}

    def step(self) -> dict[str, Any]:
        """Return one iteration of the run. The last one has ``done``."""
        try:
            if not self._entered:  # not in setup: Tune does not retry trials that fail there
                self._run.__enter__()
                self._entered = True
            self._last = next(self._results)
            self._score.update(scored(self._last))
        except (StopIteration, PermanentFailure) as end:
            self._leave()
            status = self._run.folder.status()
            reason = status.get("reason", "")
            if isinstance(end, PermanentFailure):
                reason = str(end)
            self._last |= {"done": True, "env_steps": status["env_steps"], "reason": reason}
        except FolderInUse as error:
            return self._last | {"done": True, "state": NOT_STARTED, "reason": str(error)}
        except BaseException:
            self._leave()
            raise
        return self._last | self._score | {"state": self._run.over}

    def _leave(self) -> None:
        if self._entered:
            self._run.__exit__()
        self._entered = False

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        """Return nothing: the run saves checkpoints in its own folder."""
        return {}

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Do nothing: the run resumes from its own folder."""

    def cleanup(self) -> None:
        """Close the run, also if a scheduler stops the trial early."""
        if self._entered:
            self._results.close()
            self._run.ended_from_outside()
            self._leave()


def scored(figures: dict[str, Any]) -> dict[str, float]:
    """Return the score for schedulers: the return of the newest evaluation, or of training without evaluations."""
    value = figures["evaluation_return"]
    if figures["evaluations"] == 0:
        value = figures["return"]
    if math.isnan(value):
        return {}
    return {"score": value}
