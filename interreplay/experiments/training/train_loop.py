"""The loop of one run: train, write results, save, until the end or until a signal asks for less."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from interreplay.errors import UsageError
from interreplay.experiments.process.machine import versions
from interreplay.experiments.process.outcome import first_line
from interreplay.experiments.training.result_log import RunLog
from interreplay.runs.checkpoints.best import Best, found_in
from interreplay.runs.early_stop import EarlyStop, seconds
from interreplay.runs.resume import with_unwritten
from interreplay.runs.run_folder import RunFolder


class _Stop(Exception):
    """Ends the iteration in hand; raised between two rounds of sampling, where a checkpoint loses nothing."""


class Training:
    """A run: its algorithm, its settings and its folder.

    A checkpoint may be written in the middle of an iteration. It holds what that iteration has gathered so far, so that
    a run that was interrupted there writes the same rows of results as one that was not.

    Args:
        algo: The algorithm, new or restored.
        settings: What ``argument_parser.settings_for`` returned.
        folder: Where results and checkpoints go.
        progress: Told the env steps after every round of sampling.
        trackers: Further loggers of Tune's, such as those for Weights & Biases and MLflow.
        say: Told in one line when one of them fails.
        saved: Called after every checkpoint.
        unwritten: A row of results that a full disk kept out of the files, as the checkpoint has it that was restored.

    Attributes:
        checkpoint: The newest that was written here.
        stop_reason: Which return ended the run before its last step, "" if none did.
        timed_out: Whether ``max_time`` ended this process's part of the run.
    """

    def __init__(
        self,
        algo: Any,
        settings: SimpleNamespace,
        folder: RunFolder,
        progress: Callable[[int], Any] = lambda _: None,
        trackers: Sequence[Any] = (),
        say: Callable[[str], object] = str,
        saved: Callable[[], object] = str,
        unwritten: dict[str, Any] | None = None,
    ):
        self.algo, self.settings, self.folder = algo, settings, folder
        self._trackers, self._say = trackers, say
        self._saved, self._saves, self._unwritten = saved, 0, unwritten
        self._first: tuple[int, ...] = ()
        self.checkpoint: Path | None = None
        self.stop_reason = ""
        self.timed_out = False
        limit = settings.max_time
        self._deadline = time.monotonic() + seconds(limit) if limit else math.inf
        self._progress, self._saving, self._stopping, self._goal = progress, False, False, 0
        self._cut = settings.total_env_steps % settings.steps_per_iteration > 0

    def save_soon(self) -> None:
        """Ask for a checkpoint after the round in hand; safe in signal handlers and other threads."""
        self._saving = True

    def stop(self) -> None:
        """Ask for a checkpoint and the end after the round in hand; safe in signal handlers and other threads.

        An evaluation goes on to its end, so that its row of results is that of an uninterrupted run, unless the
        environment has no time limit.
        """
        self._stopping = True
        self.algo.interrupt_evaluation(only_endless=True)

    @property
    def complete(self) -> bool:
        """Whether the run is at its end."""
        return self.algo.env_steps >= self.settings.total_env_steps or bool(self.stop_reason)

    def iterations(self) -> Iterator[dict[str, Any]]:
        """Train, and yield each iteration's result; a checkpoint is written at the end."""
        log = self._begin_log()
        early_stop = self._early_stop()
        self.stop_reason = early_stop.reason
        self.pulse()  # where it begins
        self.algo.on_progress = self._round
        try:
            while not self.complete and not self._stopping:
                result = self._iterate()
                if (found := self._found_in(result)) is not None:
                    early_stop.add(found.value)
                    self.stop_reason = early_stop.reason
                if self.stop_reason:
                    result |= {"done": True, "stop_reason": self.stop_reason}
                self._write(log, result)
                freq = self.settings.checkpoint_freq
                if self._saving or self.complete or (freq and result["training_iteration"] % freq == 0):
                    self.save()
                self._keep_if_best(result)
                yield result
        except _Stop:
            pass
        finally:
            log.close()
        self.save()

    def _begin_log(self) -> RunLog:
        parameters = vars(self.settings) | {"versions": versions()}
        try:
            log = RunLog(self.folder.path, parameters, self.algo.env_steps, self._trackers, self._say)
            if self._unwritten:
                log.write(self._unwritten, self.algo.env_steps)
        except OSError as error:
            raise UsageError(f"results in {self.folder.path} cannot be written ({error.strerror})") from error
        self._unwritten = None
        return log

    def _write(self, log: RunLog, result: dict[str, Any]) -> None:
        """Write a result; where that fails, a checkpoint takes it along, and a resumed run writes it first.

        Raises:
            UsageError: It failed, as it does where a disk is full; says what is kept.
        """
        try:
            log.write(result, self.algo.env_steps)
            if self.algo.evaluation_video is not None and (frames := self.algo.evaluation_video.take()):
                log.video("evaluation", frames, self.algo.env_steps)
        except OSError as error:
            self._unwritten = {name: value for name, value in result.items() if name != "config"}
            told = f"results in {self.folder.path} cannot be written ({error.strerror})"
            raise UsageError(f"{told}; {self.rescue()}") from error

    def rescue(self) -> str:
        """Save what an error outside of learning left whole; return half a sentence that says where it is."""
        try:
            return f"what was learned so far is kept in {self.save(more=1)}"
        except Exception as error:  # of runners that are lost, too
            newest = next((path.name for path in self.folder.checkpoints()), "none")
            return f"no checkpoint could be made of it ({first_line(error)}); the newest is {newest}"

    def last_checkpoint(self) -> str:
        """Return half a sentence that names the newest checkpoint, all of which have finite weights."""
        newest = next((path for path in self.folder.checkpoints()), None)
        return "no checkpoint was made before" if newest is None else f"the last finite checkpoint is {newest}"

    def pulse(self) -> tuple[int, ...] | None:
        """Return counts of which one changes as long as something moves, None before the first of them does.

        Safe in other threads, and costs no step anything.
        """
        runners = (self.algo.env_runner, self.algo.eval_env_runner)
        steps = (runner.num_env_steps_sampled_lifetime for runner in runners if runner is not None)
        counts = (self.algo.env_steps, self.algo.learner.updates, self._saves, *steps)
        self._first = self._first or counts
        return counts if counts != self._first else None

    def save(self, more: int = 0) -> Path:
        """Write a checkpoint; ``more`` older ones than usual stay."""
        self._saving = False
        keep = self.settings.keep_checkpoints + more
        self.checkpoint = self.folder.save(self.algo.env_steps, self.algo.save_to_path, self._settings(), keep)
        self._saved()
        self._saves += 1
        return self.checkpoint

    def _keep_if_best(self, result: dict[str, Any]) -> None:
        """Keep a checkpoint of now where an iteration's result is the best one so far."""
        if not self.settings.keep_best:
            return
        found = self._found_in(result)
        before = self.folder.best()
        if found is not None and (before is None or found > before):
            self.folder.save_best(self.algo.env_steps, self.algo.save_to_path, self._settings(), found)
            self._saved()
            self._saves += 1

    def _found_in(self, result: dict[str, Any]) -> Best | None:
        return found_in(result, evaluations=bool(self.settings.evaluation_interval))

    def _early_stop(self) -> EarlyStop:
        """Return what ends the run by its returns; earlier ones are those in the run's folder."""
        evaluations = bool(self.settings.evaluation_interval)
        return EarlyStop(
            target=self.settings.stop_at_return,
            patience=self.settings.stop_without_improvement,
            kind="evaluation" if evaluations else "training",
            earlier=self.folder.returns(evaluations),
        )

    def _settings(self) -> dict[str, Any]:
        return with_unwritten(vars(self.settings), self._unwritten)

    def _round(self, steps: int) -> None:
        self._progress(steps)
        if time.monotonic() > self._deadline:
            self.timed_out = True
            self._stopping = True
        if self._cut and self.complete:
            self.algo.request_stop()
        if self.complete or steps >= self._goal:
            return  # the iteration ends by itself, and what was asked for is done after it
        if self._stopping:
            raise _Stop
        elif self._saving:
            self.save()

    def _iterate(self) -> dict[str, Any]:
        self._goal = (self.algo.env_steps // self.settings.steps_per_iteration + 1) * self.settings.steps_per_iteration
        result = self.algo.train()
        if self._cut and self.complete:
            result |= self._last_evaluation(result["training_iteration"])
        return result

    def _last_evaluation(self, iteration: int) -> dict[str, Any]:
        """Return the evaluation that is due after an iteration that the run's end cut short, as part of its result."""
        self.algo.stop_requested = False
        interval = self.settings.evaluation_interval
        return {"evaluation": self.algo.evaluate()} if interval and iteration % interval == 0 else {}
