"""One run of a study, in its folder: begun, gone on with, or found to be over."""

from __future__ import annotations

import contextlib
import math
import time
import traceback
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

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
from interreplay.experiments.training.train_loop import Training
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.runs.folder_lock import held
from interreplay.runs.resume import restore, unwritten


class PermanentFailure(Exception):
    """A failure that another attempt from the same checkpoint would only repeat."""


class StudyRun:
    """A run of a study; a context that holds its folder and ends its processes.

    Args:
        folder: Its folder, made where there is none.
        settings: What ``argument_parser.settings_for`` returned.
        hang_timeout: Seconds without an env step after which this process ends itself.
        uri: The study's folder elsewhere, of which the folder's parent is the copy.

    Attributes:
        over: The state it was found in or came to, ``""`` while it runs.
    """

    def __init__(self, folder: Path, settings: dict[str, Any], hang_timeout: float, uri: str = ""):
        self._store = Store(uri) if uri else None
        if self._store:
            folder = self._store.here / folder.name
            self._store.pull(folder.name)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.settings = TrialFolder(folder), SimpleNamespace(**settings)
        self.over, self.training = "", cast("Training | None", None)
        self._timeout, self._started, self._exits = hang_timeout, time.monotonic(), contextlib.ExitStack()
        self._requested = ""

    def __enter__(self) -> StudyRun:
        with contextlib.ExitStack() as exits:
            exits.enter_context(held(self.folder.path, f"the run {self.folder.path.name}"))
            state = self.folder.status()["state"]
            self.over = state if state in OVER else ""
            if not self.over:
                self._status = self.folder.note(state=RUNNING, starts=self.folder.status()["starts"] + 1)
                exits.enter_context(HangWatch(self.folder.path, self._timeout, self._pulse, self._hung))
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._exits.close()

    def ask(self, request: str) -> None:
        """Request ``"save"`` or ``"stop"``; safe in signal handlers and other threads."""
        self._requested = request if request == "stop" else self._requested
        if self.training is not None:
            (self.training.stop if request == "stop" else self.training.save_soon)()

    def results(self) -> Generator[dict[str, Any]]:
        """Run to the end, or to where `ask` stopped it; yield a few figures per iteration.

        Raises:
            PermanentFailure: It failed for good.
            Exception: It failed; another attempt goes on from its last checkpoint.
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
        except (GeneratorExit, SystemExit):  # the second is how Ray ends the processes of a study that is gone
            raise
        except BaseException as error:
            self._failed(error)
        self._ended()

    def _prepare(self) -> Training:
        algo = build(ALGORITHMS[self.settings.trainer].config, self.settings)
        self._exits.callback(algo.stop)
        checkpoints = self.folder.checkpoints()
        notes: list[str] = []
        checkpoint = None
        with contextlib.suppress(CheckpointError):
            checkpoint = restore(algo, checkpoints, notes.append) if checkpoints else None
        if checkpoint is None:
            self.folder.clear()
        else:
            self.folder.set_aside_after(checkpoint)
            self.folder.rewind(algo.env_steps)
        self.folder.note(begun_at=algo.env_steps, notes=notes, ready=time.time())
        self.training = Training(algo, self.settings, self.folder, saved=self._saved, unwritten=unwritten(checkpoint))
        if self._requested:
            self.ask(self._requested)
        return self.training

    def ended_from_outside(self) -> None:
        """Note that nobody wants the rest of the run: a scheduler ended it, or the whole study stops."""
        self.over = INTERRUPTED if self._requested == "stop" else STOPPED
        self._note(self.over)

    def _ended(self) -> None:
        if self.over:
            return
        training = self.training
        self.over = FINISHED if training is not None and training.complete else INTERRUPTED
        self._note(self.over)

    def _note(self, state: str) -> None:
        steps = self.training.algo.env_steps if self.training is not None else self._status["env_steps"]
        self.folder.note(
            state=state, seconds=self._seconds(), env_steps=steps, ended=time.time(), reason=self._reason()
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
        self.folder.note(seconds=self._seconds())  # what is left to tell of a process that is killed
        self._push()

    def _seconds(self) -> float:
        return round(self._status["seconds"] + time.monotonic() - self._started, 1)

    def _push(self) -> None:
        if self._store:
            self._store.push(self.folder.path.name)

    def _failed(self, error: BaseException) -> None:
        hopeless = isinstance(error, NonFiniteError | TrainingDiverged | UsageError) and not _is_full(error)
        line = described(error)
        if isinstance(error, TrainingDiverged) and self.training is not None:
            line += f"; {self.training.last_checkpoint()}"
        if isinstance(error, EnvironmentFailure | RunnerLost) and self.training is not None:
            self.training.rescue()
        with contextlib.suppress(OSError):  # where the disk is full
            self.folder.note_failure(line, FAILED if hopeless else CRASHED)
            (self.folder.path / "error.txt").write_text(traceback.format_exc())
            self._push()
        if hopeless:
            self.over = FAILED
            raise PermanentFailure(line) from error
        raise error

    def _pulse(self) -> tuple[int, ...] | None:
        """Return what changes as long as the run moves, None before it can."""
        return self.training.pulse() if self.training is not None else None

    def _hung(self, line: str) -> None:
        self.folder.note_failure(line)


def _is_full(error: BaseException) -> bool:
    """Return whether a disk had no room, which may have changed at the next attempt."""
    return isinstance(error.__cause__, OSError)


def described(error: BaseException) -> str:
    """Return an error's kind and message; that of its cause where RLlib raised one without any."""
    cause = error.__cause__ or error.__context__
    if not str(error).strip() and cause is not None:
        return described(cause)
    return f"{type(error).__name__}: {error}"


def figures(result: dict[str, Any], steps: int) -> dict[str, Any]:
    """Return what is reported of an iteration: a few plain numbers."""
    trained = result.get("env_runners", {}).get("episode_return_mean", math.nan)
    evaluated = result.get("evaluation", {}).get("env_runners", {}).get("episode_return_mean", math.nan)
    return {"env_steps": steps, "return": float(trained), "evaluation_return": float(evaluated)}
