"""Start or resume one run of a study in its folder; `run_single` does so in this process, without Tune."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

from interreplay.errors import CheckpointError, NonFiniteError, TrainingDiverged, UsageError, describe_error
from interreplay.experiments.flags.run_flags import CHANGEABLE, list_flags
from interreplay.experiments.process.hang_watch import HangWatch
from interreplay.experiments.process.outcome import RED, colored, write_line
from interreplay.experiments.process.progress import Reporter
from interreplay.experiments.process.signals import RESUMABLE, Interrupts
from interreplay.experiments.studies.study import Execution, State, TrialFolder
from interreplay.experiments.training.start import start
from interreplay.experiments.training.train_loop import Training
from interreplay.rllib import ray_session
from interreplay.runs.results.reader import mean_return
from interreplay.runs.resume import as_plain, first_settings, read_unwritten
from interreplay.runs.state_files.disk import FolderInUse, hold

NOT_STARTED = "not started"
"""State in the event of a run that another process trains. Its folder is not changed."""


class EndOfTrial(Exception):
    """Ray Tune ends a run: by a scheduler, or because the whole study stops."""


class StudyRun:
    """A run of a study, in a folder that is created if necessary.

    While `results` trains it, the folder is locked, and the process ends after `hang_timeout` seconds without progress.

    Attributes:
        end: How `results` ended: the ``state``, the ``env_steps`` and the ``reason``, "" for the last env step.
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
        self.end: dict[str, Any] = {}
        self.training: Training | None = None
        self._timeout = hang_timeout
        self._on_progress = progress
        self._started = time.monotonic()
        self._exits = contextlib.ExitStack()
        self._requested = ""

    def ask(self, request: str) -> None:
        """Request ``"save"`` or ``"stop"``; safe in signal handlers and other threads."""
        if request == "stop":
            self._requested = request
            if self.training is not None:
                self.training.stop()
        elif self.training is not None:
            self.training.requests.save()

    def results(self) -> Generator[dict[str, Any]]:
        """Train until the end, a request to stop or a permanent failure, and yield a few figures per iteration.

        After other failures, which are raised, another attempt resumes from the last checkpoint.
        """
        with contextlib.ExitStack() as self._exits:
            try:
                self._exits.enter_context(hold(self.folder.path, f"the run {self.folder.path.name}"))
            except FolderInUse as error:
                self.end = {"state": NOT_STARTED, "reason": str(error)}
                return
            status = self.folder.status()
            if status["state"] in State.OVER:
                self.end = status
                return
            self._status = self.folder.note(state=State.RUNNING, starts=status["starts"] + 1, reason="")
            watch = HangWatch(self.folder.path, self._timeout, self._progress, self.folder.note_failure)
            self._exits.enter_context(watch)
            state = State.INTERRUPTED
            try:
                if self._requested != "stop":
                    training = self._prepare()
                    self._on_progress(training.algo.env_steps)
                    for result in training.iterations():
                        yield {
                            "env_steps": training.algo.env_steps,
                            "return": mean_return(result),
                            "evaluation_return": mean_return(result.get("evaluation", {})),
                            "evaluations": self.settings.evaluation_interval,
                        }
            except EndOfTrial:
                if self._requested != "stop":
                    state = State.STOPPED
            except (GeneratorExit, SystemExit):  # Ray raises SystemExit in a process after its driver has ended
                raise
            except BaseException as error:
                if not self._note_failure(error):
                    raise
                return
            reason = ""  # the limit that ended the run before its last step
            if self.training is not None:
                reason = self.training.stop_reason
                if self.training.complete:  # also if a scheduler judged its last result
                    state = State.FINISHED
                elif self.training.requests.timed_out:
                    reason = f"--max_time {self.settings.max_time} is over"
            self.end = self._record(state=state, ended=time.time(), reason=reason)

    def _prepare(self) -> Training:
        checkpoints = self.folder.resumable()
        notes: list[str] = []
        checkpoint = None
        if checkpoints:
            with contextlib.suppress(CheckpointError):  # all are unusable, see below
                saved = first_settings(checkpoints)  # the wrapper of --relabel has the hash of the function's source
                self.settings.wrapper = saved.get("wrapper", self.settings.wrapper)
                check_unchanged(saved, vars(self.settings))
            try:
                algo, checkpoint = start(self.settings, checkpoints, notes.append)
            except CheckpointError as error:
                notes.append(f"{error}; the run starts from scratch")
                self.folder.set_aside_after(-1)  # otherwise they would count as newer than those of the new attempt
        if checkpoint is None:
            self.folder.clear()
            algo, _ = start(self.settings, [], notes.append)
        self._exits.callback(algo.stop)
        if checkpoint is not None:
            self.folder.set_aside_after(algo.env_steps)
            self.folder.rewind(algo.env_steps)
        self.folder.note(begun_at=algo.env_steps, notes=notes, ready=time.time())
        self.training = Training(
            algo,
            self.settings,
            self.folder,
            progress=self._on_progress,
            notify=self._note_line,
            saved=self._record,  # remains if the process is killed
            unwritten=read_unwritten(checkpoint),
        )
        if self._requested:
            self.ask(self._requested)
        return self.training

    def _note_line(self, line: str) -> None:
        """Add a line to the notes of the run."""
        with contextlib.suppress(OSError):  # full disk
            self.folder.note(notes=[*self.folder.status().get("notes", []), line])

    def _record(self, **changes: Any) -> dict[str, Any]:
        """Record the seconds and the env steps so far, and further changes of the status; return the status."""
        seconds = self._status["seconds"] + time.monotonic() - self._started
        steps = self._status["env_steps"]
        if self.training is not None:
            steps = int(self.training.algo.env_steps)
        return self.folder.note(seconds=round(seconds, 1), env_steps=steps, **changes)

    def _note_failure(self, error: BaseException) -> bool:
        """Record a failure and save what is intact; return whether another attempt would fail in the same way."""
        full_disk = isinstance(error.__cause__, OSError)  # the next attempt may find free space
        permanent = isinstance(error, NonFiniteError | TrainingDiverged | UsageError) and not full_disk
        line = describe_error(error)
        if self.training is not None and isinstance(error, TrainingDiverged):
            line += f"; {self.training.save_after(error)}"
        elif self.training is not None and not permanent:
            self.training.save_after(error)
        self.folder.note_error(error)
        with contextlib.suppress(OSError):  # full disk
            self._record()
            self.folder.note_failure(line, State.FAILED if permanent else State.CRASHED)
        if permanent:
            self.end = self.folder.status() | {"state": State.FAILED, "reason": line}
        return permanent

    def _progress(self) -> tuple[int, ...] | None:
        """Return counts that change with any progress, None before the first progress."""
        return self.training.pulse() if self.training is not None else None


def check_unchanged(saved: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Reject settings of learning that differ from a checkpoint's, for example because a preset has changed."""
    names = list_flags("learning", "method") | {"buffer_args", "prioritized", "credit_both"}
    names -= CHANGEABLE | {"torch_compile"}  # a preset compiles only on machines with a compiler
    for name in sorted(names & saved.keys() & settings.keys()):
        if saved[name] != as_plain(settings[name]):
            raise UsageError(
                f"the run was begun with {name} {saved[name]}, not {settings[name]}; expected the same preset, or a "
                "new study"
            )


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
        except Exception as error:
            outcome = "failed, trying again from its last checkpoint"
            if attempt == how.max_failures:
                outcome = "failed for good"
            write_line(colored(f"{outcome}: {describe_error(error)}", RED, stream), stream)
    with contextlib.suppress(OSError):  # full disk
        folder.note(state=State.FAILED)
    return 1


def _attempt(folder: TrialFolder, settings: dict[str, Any], hang_timeout: float, stream: TextIO) -> int:
    reporters: list[Reporter] = []

    def progress(steps: int) -> None:
        if not reporters:  # the run is ready
            reporters.append(Reporter(run.settings, steps, stream, folder.best_evaluation()))
        reporters[0].progress(steps)

    run = StudyRun(folder.path, settings, hang_timeout, progress)
    with Interrupts(lambda: run.ask("stop"), lambda: run.ask("save")) as interrupts:
        try:
            for figures in run.results():
                reporters[0].report(figures["env_steps"], figures)
        finally:
            for reporter in reporters:
                reporter.close()
    state = run.end["state"]
    reason = run.end["reason"] or "by a signal"
    if state == NOT_STARTED:
        raise FolderInUse(reason)
    if state == State.FAILED:
        write_line(colored(f"failed for good: {reason}", RED, stream), stream)
        return 1
    if state in State.OVER:
        if not reporters:
            write_line(f"already {state}", stream)
        return 0
    write_line(f"{state} ({reason}) at {run.end['env_steps']:,} steps; the same command resumes it", stream)
    return interrupts.exit_code or RESUMABLE
