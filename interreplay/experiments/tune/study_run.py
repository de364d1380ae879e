"""One run of a study in its folder: started, resumed, or found to be finished."""

from __future__ import annotations

import contextlib
import math
import time
import traceback
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from interreplay.errors import (
    CheckpointError,
    EnvironmentFailure,
    NonFiniteError,
    RunnerLost,
    TrainingDiverged,
    UsageError,
)
from interreplay.experiments.process.hang_watch import HangWatch
from interreplay.experiments.studies.remote_folder import Store
from interreplay.experiments.studies.trial_folder import (
    CRASHED,
    FAILED,
    FINISHED,
    INTERRUPTED,
    OVER,
    RUNNING,
    STOPPED,
    TrialFolder,
)
from interreplay.experiments.training.build import build
from interreplay.experiments.training.forking import fork
from interreplay.experiments.training.train_loop import Training
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.runs.folder_lock import held
from interreplay.runs.resume import restore, unwritten


class PermanentFailure(Exception):
    """A failure that another attempt from the same checkpoint would repeat."""


class StudyRun:
    """A run of a study. As a context, it locks its folder and ends its processes.

    Args:
        folder: Folder of the run, created if necessary.
        settings: Result of ``argument_parser.settings_for``.
        hang_timeout: Seconds without progress after which this process ends.
        uri: URI of the study's folder, if ``folder`` is part of a local copy.

    Attributes:
        over: The final state of the run, ``""`` while it runs.
    """

    def __init__(self, folder: Path, settings: dict[str, Any], hang_timeout: float, uri: str = ""):
        self._store = Store(uri) if uri else None
        if self._store:
            folder = self._store.here / folder.name
            self._store.pull(folder.name)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = TrialFolder(folder)
        self.settings = SimpleNamespace(**settings)
        self.over = ""
        self.training: Training | None = None
        self._timeout = hang_timeout
        self._started = time.monotonic()
        self._exits = contextlib.ExitStack()
        self._requested = ""

    def __enter__(self) -> StudyRun:
        with contextlib.ExitStack() as exits:
            exits.enter_context(held(self.folder.path, f"the run {self.folder.path.name}"))
            state = self.folder.status()["state"]
            self.over = state if state in OVER else ""
            if not self.over:
                self._status = self.folder.note(state=RUNNING, starts=self.folder.status()["starts"] + 1)
                exits.enter_context(
                    HangWatch(self.folder.path, self._timeout, self._progress, self.folder.note_failure)
                )
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._exits.close()

    def ask(self, request: str) -> None:
        """Request ``"save"`` or ``"stop"``; safe in signal handlers and other threads."""
        if request == "stop":
            self._requested = request
        if self.training is None:
            return
        if request == "stop":
            self.training.stop()
        else:
            self.training.save_soon()

    def results(self) -> Generator[dict[str, Any]]:
        """Train until the end or a request to stop, and yield a few figures per iteration.

        Raises:
            PermanentFailure: The run failed, and another attempt would fail in the same way.
            Exception: The run failed; another attempt resumes from its last checkpoint.
        """
        try:
            if not self.over and self._requested != "stop":
                training = self._prepare()
                begun_at = training.algo.env_steps
                for result in training.iterations():
                    yield figures(result, training.algo.env_steps) | {
                        "evaluations": self.settings.evaluation_interval,
                        "begun_at": begun_at,
                    }
        except (GeneratorExit, SystemExit):  # Ray raises SystemExit in processes whose driver has ended
            raise
        except BaseException as error:
            self._failed(error)
        if not self.over:
            complete = self.training is not None and self.training.complete
            self.over = FINISHED if complete else INTERRUPTED
            self._note(self.over)

    def _prepare(self) -> Training:
        algo = build(ALGORITHMS[self.settings.trainer].config, self.settings)
        self._exits.callback(algo.stop)
        checkpoints = self.folder.checkpoints()
        notes: list[str] = []
        checkpoint = None
        if checkpoints:
            with contextlib.suppress(CheckpointError):
                checkpoint = restore(algo, checkpoints, notes.append)
        if checkpoint is None:
            self.folder.clear()
            if self.settings.fork_from:
                fork(algo, self.settings, notes.append)
        else:
            self.folder.set_aside_after(checkpoint)
            self.folder.rewind(algo.env_steps)
        self.folder.note(begun_at=algo.env_steps, notes=notes, ready=time.time())
        self.training = Training(algo, self.settings, self.folder, saved=self._saved, unwritten=unwritten(checkpoint))
        if self._requested:
            self.ask(self._requested)
        return self.training

    def ended_from_outside(self) -> None:
        """Record that Tune ended the run: by a scheduler, or because the whole study stops."""
        self.over = INTERRUPTED if self._requested == "stop" else STOPPED
        self._note(self.over)

    def _note(self, state: str) -> None:
        steps = self.training.algo.env_steps if self.training is not None else self._status["env_steps"]
        self.folder.note(
            state=state,
            seconds=self._seconds(),
            env_steps=steps,
            ended=time.time(),
            reason=self._reason(),
        )
        self._push()

    def _reason(self) -> str:
        """Return which limit ended the run before its last step, "" if none did."""
        if self.training is None:
            return ""
        if self.training.timed_out and not self.training.complete:
            return f"--max_time {self.settings.max_time} is over"
        return self.training.stop_reason

    def _saved(self) -> None:
        self.folder.note(seconds=self._seconds())  # remains if the process is killed
        self._push()

    def _seconds(self) -> float:
        return round(self._status["seconds"] + time.monotonic() - self._started, 1)

    def _push(self) -> None:
        if self._store:
            self._store.push(self.folder.path.name)

    def _failed(self, error: BaseException) -> None:
        full_disk = isinstance(error.__cause__, OSError)  # may have room at the next attempt
        permanent = isinstance(error, NonFiniteError | TrainingDiverged | UsageError) and not full_disk
        line = described(error)
        if isinstance(error, TrainingDiverged) and self.training is not None:
            line += f"; {self.training.last_checkpoint()}"
        if isinstance(error, EnvironmentFailure | RunnerLost) and self.training is not None:
            self.training.rescue()
        with contextlib.suppress(OSError):  # full disk
            self.folder.note_failure(line, FAILED if permanent else CRASHED)
            (self.folder.path / "error.txt").write_text(traceback.format_exc())
            self._push()
        if permanent:
            self.over = FAILED
            raise PermanentFailure(line) from error
        raise error

    def _progress(self) -> tuple[int, ...] | None:
        """Return counts that change with any progress, None before the first progress."""
        return self.training.pulse() if self.training is not None else None


def described(error: BaseException) -> str:
    """Return an error's class and message. If the message is empty, as RLlib raises some, describe its cause."""
    cause = error.__cause__ or error.__context__
    if not str(error).strip() and cause is not None:
        return described(cause)
    return f"{type(error).__name__}: {error}"


def figures(result: dict[str, Any], steps: int) -> dict[str, Any]:
    """Return env steps and mean returns of an iteration as plain numbers."""
    trained = result.get("env_runners", {}).get("episode_return_mean", math.nan)
    evaluated = result.get("evaluation", {}).get("env_runners", {}).get("episode_return_mean", math.nan)
    return {"env_steps": steps, "return": float(trained), "evaluation_return": float(evaluated)}
