"""Start or resume one run of a study in its folder; `run_single` does so in this process, without Tune."""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

from interreplay.errors import (
    CheckpointError,
    EnvironmentFailure,
    NonFiniteError,
    RunnerLost,
    TrainingDiverged,
    UsageError,
)
from interreplay.experiments.flags.run_flags import CHANGEABLE, list_flags
from interreplay.experiments.process.hang_watch import HangWatch
from interreplay.experiments.process.outcome import RED, colored, write_line
from interreplay.experiments.process.progress import Reporter
from interreplay.experiments.process.signals import RESUMABLE, Interrupts
from interreplay.experiments.studies.study import Execution
from interreplay.experiments.studies.study_folder import (
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
from interreplay.rllib import ray_session
from interreplay.runs.results.reader import mean_return
from interreplay.runs.resume import as_plain, first_settings, read_unwritten, restore
from interreplay.runs.state_files.disk import FolderInUse, hold

NOT_STARTED = "not started"
"""State in the event of a run that another process trains. Its folder is not changed."""


class PermanentFailure(Exception):
    """A failure that another attempt from the same checkpoint would repeat."""


class StudyRun:
    """A run of a study. As a context, it locks its folder, which is created if necessary, and ends its processes.

    The process ends after `hang_timeout` seconds without progress. `over` is the final state of the run, ``""`` while
    it runs.
    """

    def __init__(
        self,
        folder: Path,
        settings: dict[str, Any],
        hang_timeout: float,
        progress: Callable[[int], object] = lambda _: None,
    ):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = TrialFolder(folder)
        self.settings = SimpleNamespace(**settings)
        self.over = ""
        self.training: Training | None = None
        self._timeout = hang_timeout
        self._on_progress = progress
        self._started = time.monotonic()
        self._exits = contextlib.ExitStack()
        self._requested = ""

    def __enter__(self) -> StudyRun:
        with contextlib.ExitStack() as exits:
            exits.enter_context(hold(self.folder.path, f"the run {self.folder.path.name}"))
            status = self.folder.status()
            if status["state"] in OVER:
                self.over = status["state"]
            else:
                self._status = self.folder.note(state=RUNNING, starts=status["starts"] + 1, reason="")
                watch = HangWatch(self.folder.path, self._timeout, self._progress, self.folder.note_failure)
                exits.enter_context(watch)
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._exits.close()

    def ask(self, request: str) -> None:
        """Request ``"save"`` or ``"stop"``; safe in signal handlers and other threads."""
        if request == "stop":
            self._requested = request
            if self.training is not None:
                self.training.stop()
        elif self.training is not None:
            self.training.requests.save()

    def results(self) -> Generator[dict[str, Any]]:
        """Train until the end or a request to stop, and yield a few figures per iteration.

        Raises:
            PermanentFailure: The run failed, and another attempt would fail in the same way.
            Exception: The run failed; another attempt resumes from its last checkpoint.
        """
        try:
            if not self.over and self._requested != "stop":
                training = self._prepare()
                self._on_progress(training.algo.env_steps)
                for result in training.iterations():
                    yield {
                        "env_steps": training.algo.env_steps,
                        "return": mean_return(result),
                        "evaluation_return": mean_return(result.get("evaluation", {})),
                        "evaluations": self.settings.evaluation_interval,
                    }
        except (GeneratorExit, SystemExit):  # Ray raises SystemExit in a process after its driver has ended
            raise
        except BaseException as error:
            self._failed(error)
        if not self.over:
            self.over = INTERRUPTED
            if self.training is not None and self.training.complete:
                self.over = FINISHED
            self._note(self.over)

    def _prepare(self) -> Training:
        checkpoints = self.folder.resumable()
        notes: list[str] = []
        checkpoint = None
        if checkpoints:
            with contextlib.suppress(CheckpointError):  # all are unusable, see below
                saved = first_settings(checkpoints)  # the wrapper of --relabel has the hash of the function's source
                self.settings.wrapper = saved.get("wrapper", self.settings.wrapper)
                check_unchanged(saved, vars(self.settings))
        algo = self._build()
        if checkpoints:
            try:
                checkpoint = restore(algo, checkpoints, notes.append)
            except CheckpointError as error:
                notes.append(f"{error}; the run starts from scratch")
                self.folder.set_aside_after(-1)  # otherwise they would count as newer than those of the new attempt
                algo.stop()  # it may have parts of a checkpoint
                algo = self._build()
        if checkpoint is None:
            self.folder.clear()
            if self.settings.fork_from:
                fork(algo, self.settings, notes.append)
        else:
            self.folder.set_aside_after(algo.env_steps)
            self.folder.rewind(algo.env_steps)
        self.folder.note(begun_at=algo.env_steps, notes=notes, ready=time.time())
        self.training = Training(
            algo,
            self.settings,
            self.folder,
            progress=self._on_progress,
            notify=self._note_line,
            saved=self._saved,
            unwritten=read_unwritten(checkpoint),
        )
        if self._requested:
            self.ask(self._requested)
        return self.training

    def _build(self) -> Any:
        """Return a new algorithm, and end its processes at the end of the run."""
        algo = build(ALGORITHMS[self.settings.trainer].config, self.settings)
        self._exits.callback(algo.stop)
        return algo

    def _note_line(self, line: str) -> None:
        """Add a line to the notes of the run."""
        with contextlib.suppress(OSError):  # full disk
            self.folder.note(notes=[*self.folder.status().get("notes", []), line])

    def record_outside_end(self) -> None:
        """Record that Tune ended the run: by a scheduler, or because the whole study stops."""
        self.over = INTERRUPTED if self._requested == "stop" else STOPPED
        if self.training is not None and self.training.complete:  # a scheduler judged its last result
            self.over = FINISHED
        self._note(self.over)

    def _note(self, state: str) -> None:
        """Record the end of the run, and the limit that ended it before its last step."""
        reason = ""
        if self.training is not None:
            reason = self.training.stop_reason
            if self.training.requests.timed_out and not self.training.complete:
                reason = f"--max_time {self.settings.max_time} is over"
        self.folder.note(
            state=state, seconds=self._seconds(), env_steps=self._steps(), ended=time.time(), reason=reason
        )

    def _saved(self) -> None:
        self.folder.note(seconds=self._seconds())  # remains if the process is killed

    def _steps(self) -> int:
        if self.training is None:
            return int(self._status["env_steps"])
        return int(self.training.algo.env_steps)

    def _seconds(self) -> float:
        return round(self._status["seconds"] + time.monotonic() - self._started, 1)

    def _failed(self, error: BaseException) -> None:
        full_disk = isinstance(error.__cause__, OSError)  # the next attempt may find free space
        permanent = isinstance(error, NonFiniteError | TrainingDiverged | UsageError) and not full_disk
        line = describe_error(error)
        if isinstance(error, TrainingDiverged) and self.training is not None:
            line += f"; {self.training.last_checkpoint()}"
        if isinstance(error, EnvironmentFailure | RunnerLost) and self.training is not None:
            self.training.rescue()
        with contextlib.suppress(OSError):  # full disk
            self.folder.note(seconds=self._seconds(), env_steps=self._steps())
            self.folder.note_failure(line, FAILED if permanent else CRASHED)
            (self.folder.path / "error.txt").write_text(traceback.format_exc())
        if permanent:
            self.over = FAILED
            raise PermanentFailure(line) from error
        raise error

    def _progress(self) -> tuple[int, ...] | None:
        """Return counts that change with any progress, None before the first progress."""
        return self.training.pulse() if self.training is not None else None


def check_unchanged(saved: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Reject settings of learning that differ from a checkpoint's, for example because a preset has changed."""
    names = list_flags("learning", "method") | {"buffer_args", "prioritized", "credit_both"}
    for name in sorted((names - CHANGEABLE) & saved.keys() & settings.keys()):
        if saved[name] != as_plain(settings[name]):
            raise UsageError(
                f"the run was begun with {name} {saved[name]}, not {settings[name]}; expected the same preset, or a "
                "new study"
            )


def describe_error(error: BaseException) -> str:
    """Return an error's class and message. If the message is empty, as in some errors of RLlib, describe the cause."""
    cause = error.__cause__ or error.__context__
    if not str(error).strip() and cause is not None:
        return describe_error(cause)
    return f"{type(error).__name__}: {error}"


def run_single(folder: TrialFolder, settings: dict[str, Any], how: Execution, stream: TextIO) -> int:
    """Start or resume a run, until its end or a signal. Retry from its last checkpoint if it fails.

    Returns:
        The exit code: 0 if finished, 1 if failed, 75 after SIGTERM or ``max_time``, 130 after Ctrl-C.
    """
    ray_session.prepare_host(settings["threads"], settings["num_workers"], settings["device"])
    for attempt in range(how.max_failures + 1):
        try:
            return _attempt(folder, settings, how.hang_timeout, stream)
        except FolderInUse:  # the run does not fail: another process trains it
            raise
        except PermanentFailure as error:
            write_line(colored(f"failed for good: {error}", RED, stream), stream)
            return 1
        except Exception as error:
            outcome = "failed, trying again from its last checkpoint"
            if attempt == how.max_failures:
                outcome = "failed for good"
            write_line(colored(f"{outcome}: {describe_error(error)}", RED, stream), stream)
    with contextlib.suppress(OSError):  # full disk
        folder.note(state=FAILED)
    return 1


def _attempt(folder: TrialFolder, settings: dict[str, Any], hang_timeout: float, stream: TextIO) -> int:
    reporters: list[Reporter] = []

    def progress(steps: int) -> None:
        if not reporters:  # the run is ready
            reporters.append(Reporter(run.settings, steps, stream, folder.best_evaluation()))
        reporters[0].progress(steps)

    run = StudyRun(folder.path, settings, hang_timeout, progress)
    with Interrupts(lambda: run.ask("stop"), lambda: run.ask("save")) as interrupts, run:
        if run.over:
            write_line(f"already {run.over}", stream)
        try:
            for figures in run.results():
                reporters[0].report(figures["env_steps"], figures)
        finally:
            for reporter in reporters:
                reporter.close()
        if run.over in OVER:
            return 0
    status = run.folder.status()
    reason = status.get("reason") or "by a signal"
    write_line(f"{run.over} ({reason}) at {status['env_steps']:,} steps; the same command resumes it", stream)
    return interrupts.exit_code or RESUMABLE
