"""The training loop of one run: train, write results and save, until the end or a request to stop."""

from __future__ import annotations

import bisect
import contextlib
import math
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from interreplay import errors
from interreplay.environments.spaces import columns_from_spaces
from interreplay.experience.store import StoreWriter
from interreplay.experience.store.header import EXPERIENCE, width
from interreplay.experiments.flags.values import drop_settings, seconds, select_settings
from interreplay.experiments.process.machine import versions
from interreplay.experiments.training.result_log import EpisodeFile, RunLog
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.runs.checkpoints import find_return
from interreplay.runs.resume import UNWRITTEN, as_plain
from interreplay.runs.run_folder import RunFolder
from interreplay.storage.columns import is_observation

MOST_ROWS = 1_000_000
MOST_BYTES = 2 << 30
"""Limits of ``--keep_experience auto``."""
INTACT = (errors.NonFiniteError, errors.PartError, errors.EnvironmentFailure, errors.RunnerLost)
"""Errors that leave the learned state intact."""


class Requests:
    """Requests to save or to stop, of one run or of several runs that learn as one.

    A run handles a request once it has made as many updates as the run that is ahead, so that the runs continue as one
    when they are resumed. `timed_out` states whether ``max_time`` of this process has elapsed.
    """

    def __init__(self) -> None:
        self.timed_out = False
        self._lock = threading.Lock()
        self._updates: dict[Hashable, int] = {}  # made by each run, plus one if it has begun another
        self._saved: set[Hashable] = set()  # runs that have handled the newest request to save
        self._save_requested = False
        self._stop_requested = False
        self._save_at = math.inf
        self._stop_at: int | None = None

    def save(self) -> None:
        """Request a checkpoint of each run after the current batches. Safe in signal handlers and other threads."""
        self._save_requested = True

    def stop(self) -> None:
        """Request the end of each run. Safe in signal handlers."""
        self._stop_requested = True

    def begin_draw(self, run: Hashable, updates: int) -> None:
        """Record that a run, which has made a number of updates, draws the batch of the next one."""
        with self._lock:
            self._updates[run] = updates + 1

    def due(self, run: Hashable, updates: int, before_draw: bool = False) -> str:
        """Return what a run must do after a number of updates: ``"stop"``, ``"save"``, or ``""`` to continue.

        With `before_draw`, the run draws batches if it continues.
        """
        with self._lock:
            self._updates[run] = updates
            most_updates = max(self._updates.values())
            if self._stop_requested and self._stop_at is None:
                self._stop_at = most_updates
            if self._save_requested:
                self._save_requested = False
                self._save_at = most_updates
                self._saved.clear()
            if self._stop_at is not None and updates >= self._stop_at:
                return "stop"
            if run not in self._saved and updates >= self._save_at:
                self._saved.add(run)
                return "save"
            if before_draw:
                self._updates[run] = updates + 1
            return ""


def find_stop_reason(returns: Sequence[float], settings: SimpleNamespace) -> str:
    """Return why a run must end after its newest mean return: it has reached its goal, or stopped improving; else "".

    Returns are of evaluations, or of training in runs without evaluations.
    """
    kind = "evaluation" if settings.evaluation_interval else "training"
    best = max(returns, default=-math.inf)
    target = settings.stop_at_return
    if target is not None and best >= target:
        return f"{kind} return {best:,.1f} reached --stop_at_return {target:g}"
    since_best = len(returns) - 1 - returns.index(best) if returns else 0
    patience = settings.stop_without_improvement
    if patience is not None and since_best >= patience:
        kinds = "evaluations" if settings.evaluation_interval else "iterations"
        return f"{since_best} {kinds} without a return above {best:,.1f} (--stop_without_improvement {patience})"
    return ""


class _Stop(Exception):
    """Ends the current iteration. Raised between rounds of sampling and draws, where a checkpoint loses nothing."""


@dataclass(eq=False)
class Training:
    """A run: its algorithm, its settings and its folder.

    A checkpoint can be written in the middle of an iteration. It contains the metrics of that iteration so far, so that
    an interrupted run writes the same rows of results as an uninterrupted one.

    `progress` is called with the env steps after each round of sampling, `saved` after each checkpoint, and `notify`
    with one line, for example when a tracker fails. `unwritten` is a row of results from the restored checkpoint that
    could not be written because of a full disk.

    Attributes:
        stop_reason: Why returns ended the run before its last step, "" if they did not.
        requests: Requests to save or to stop. Runs that learn as one share them.
    """

    algo: Any
    settings: SimpleNamespace
    folder: RunFolder
    progress: Callable[[int], Any] = lambda _: None
    trackers: Sequence[Any] = ()
    notify: Callable[[str], object] = str
    saved: Callable[[], object] = str
    unwritten: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self._saves = 0
        self._store: StoreWriter | None = None
        self._episodes: EpisodeFile | None = None
        self._kept_at: list[int] = []
        self._first: tuple[int, ...] = ()
        self._evaluates = bool(self.settings.evaluation_interval)
        self.stop_reason = ""
        self.requests = Requests()
        self._deadline = math.inf
        if self.settings.max_time:
            self._deadline = time.monotonic() + seconds(self.settings.max_time)

    def stop(self) -> None:
        """Request a checkpoint and the end after the current batches. Safe in signal handlers and other threads.

        An evaluation continues to its end, so that its results equal those of an uninterrupted run, unless the
        environment has no time limit.
        """
        self.requests.stop()
        self.algo.interrupt_evaluation(only_endless=True)

    @property
    def complete(self) -> bool:
        """Whether the run has reached its end."""
        if self.stop_reason:
            return True
        return self.algo.env_steps >= self.settings.total_env_steps and not self.algo.evaluation_failed

    def iterations(self) -> Iterator[dict[str, Any]]:
        """Train and yield the result of each iteration. Write a checkpoint at the end."""
        log = self._begin_log()
        returns = self.folder.returns(self._evaluates)
        self.stop_reason = find_stop_reason(returns, self.settings)
        self.pulse()  # records the counts at the beginning
        self.algo.total_env_steps = self.settings.total_env_steps
        self.algo.on_progress = self._round
        self.algo.on_draw = self._before_draw
        kept_at = sorted(self.settings.keep_checkpoints_at or ())
        self._kept_at = kept_at[bisect.bisect_right(kept_at, self.algo.env_steps) :]
        rows = rows_to_keep(self.settings, self.algo)
        if rows:
            about = select_settings(
                vars(self.settings), ("trainer", "buffer", "seed", "wrapper", "frame_stack", "relabel")
            )
            self._store = self.algo.keep_experience(self.folder.path / EXPERIENCE, rows, about, self.notify)
        try:
            while not self.complete:
                self._handle_requests()
                yield self._iterate(log, returns)
        except _Stop:
            pass
        finally:
            log.close()
            if self._store is not None:
                self._store.close()
        self.save()

    def _iterate(self, log: RunLog, returns: list[float]) -> dict[str, Any]:
        """Train for one iteration, write its result and the checkpoints that are due, and return the result."""
        repeated = self.algo.evaluation_failed
        result = self.algo.train()
        is_known = repeated and self.folder.has_result(result)
        found = find_return(result, self._evaluates)
        if found is not None and not is_known:
            returns.append(found.value)
            self.stop_reason = find_stop_reason(returns, self.settings)
        if self.stop_reason:
            result |= {"done": True, "stop_reason": self.stop_reason}
        if not is_known:
            self._write(log, result)
        self._keep_due(self.algo.env_steps)
        freq = self.settings.checkpoint_freq
        if self.complete or (freq and result["training_iteration"] % freq == 0):
            self.save()
        if found is not None and self.settings.keep_best:
            before = self.folder.best()
            if before is None or found > before:
                self._checkpoint(self.folder.save_best, found)
        return result

    def _begin_log(self) -> RunLog:
        parameters = vars(self.settings) | {"versions": versions(), "run_id": self.algo.run_id}
        try:
            log = RunLog(self.folder.path, parameters, self.algo.env_steps, trackers=self.trackers, notify=self.notify)
            self._episodes = EpisodeFile(self.folder.path, self.algo)
            if self.unwritten and not self.folder.has_result(self.unwritten):
                log.write(self.unwritten, self.algo.env_steps)
        except OSError as error:
            raise errors.UsageError(f"results in {self.folder.path} cannot be written ({error.strerror})") from error
        self.unwritten = None
        return log

    def _write(self, log: RunLog, result: dict[str, Any]) -> None:
        """Write a result. If that fails, save a checkpoint with the result, which a resumed run writes first."""
        self.unwritten = drop_settings(result, ["config"])
        try:
            log.write(result, self.algo.env_steps)
            self.unwritten = None
            if self._episodes is not None:
                self._episodes.write()
            if self.algo.evaluation_video is not None:
                frames = self.algo.evaluation_video.take()
                if frames:
                    log.video(frames, self.algo.env_steps)
        except OSError as error:
            problem = f"results in {self.folder.path} cannot be written ({error.strerror})"
            raise errors.UsageError(f"{problem}; {self.rescue()}") from error

    def save_after(self, error: BaseException) -> str:
        """Save what is intact after an error, and return a clause that names the newest checkpoint.

        Return "" after errors that leave an unknown state, and after requests to end.
        """
        if isinstance(error, errors.TrainingDiverged):
            return self.last_checkpoint()
        # raised by a user's code, such as `SystemExit`
        ends_program = not isinstance(error, Exception) and not errors.is_request_to_end(error)
        if ends_program or isinstance(error, INTACT):
            return self.rescue()
        return ""

    def rescue(self) -> str:
        """Save a checkpoint after an error outside of learning, and return a clause that names it."""
        try:
            return f"what was learned so far is kept in {self.save(more=1)}"
        except Exception as error:  # runners may be lost too
            return f"no further checkpoint could be saved ({errors.describe_error(error)}); {self.last_checkpoint()}"

    def last_checkpoint(self) -> str:
        """Return a clause that names the newest checkpoint; all checkpoints have finite weights."""
        for newest in self.folder.resumable():
            return f"the last finite checkpoint is {newest}"
        return "no checkpoint was made before"

    def pulse(self) -> tuple[int, ...] | None:
        """Return counts that change with any progress, None before the first progress. Safe in other threads."""
        counts = [self.algo.env_steps, self.algo.learner.updates, self._saves]
        for runner in (self.algo.env_runner, self.algo.eval_env_runner):
            if runner is not None:
                counts.append(runner.num_env_steps_sampled_lifetime)
        self._first = self._first or tuple(counts)
        if tuple(counts) == self._first:
            return None
        return tuple(counts)

    def save(self, more: int = 0) -> Path:
        """Write a checkpoint, and keep ``more`` older ones than usual."""
        if self._episodes is not None:
            with contextlib.suppress(OSError):  # a full disk; the checkpoint contains the rows
                self._episodes.write()
        path = self._checkpoint(self.folder.save, self.settings.keep_checkpoints + more)
        self._keep_due(self.algo.env_steps)  # after an error at such a step, which a resumed run has passed
        return path

    def _checkpoint(self, save: Callable[..., Path], *arguments: Any) -> Path:
        """Write a checkpoint with a method of the run's folder, and return its path."""
        if self._store is not None:
            self._store.commit(durable=True)  # the store must contain the steps of the checkpoint
        settings = dict(vars(self.settings))
        if self.unwritten is not None:
            settings[UNWRITTEN] = as_plain(self.unwritten)
        path = save(self.algo.env_steps, self.algo.save_to_path, settings, *arguments)
        self.saved()
        self._saves += 1
        return path

    def _keep_due(self, steps: int) -> None:
        """Keep a checkpoint if one of ``keep_checkpoints_at`` is reached; it is never removed."""
        due = [step for step in self._kept_at if step <= steps]
        if due:
            self._kept_at = self._kept_at[len(due) :]
            self._checkpoint(self.folder.save_kept)

    def _round(self, steps: int) -> None:
        self.progress(steps)
        if not self._ends_iteration:
            self._keep_due(steps)
            self._handle_requests()

    def _before_draw(self) -> None:
        """Handle requests, unless the iteration ends after this draw or, without collection, the draw is a round."""
        if self._ends_iteration or self.settings.updates is not None:
            self.requests.begin_draw(self, self.algo.learner.updates)
        else:
            self._handle_requests(before_draw=True)

    @property
    def _ends_iteration(self) -> bool:
        """Whether the iteration ends after the updates that are due; requests are handled after it."""
        return self.algo.env_steps >= self.algo.iteration_end

    def _handle_requests(self, before_draw: bool = False) -> None:
        """Save if requested; raise `_Stop` if the run must stop."""
        if time.monotonic() > self._deadline:
            self.requests.timed_out = True
            self.requests.stop()
        while request := self.requests.due(self, self.algo.learner.updates, before_draw):
            if request == "stop":
                raise _Stop
            self.save()


def rows_to_keep(settings: SimpleNamespace, algo: Any) -> int:
    """Return the maximum number of rows that a run keeps, 0 for none."""
    if ALGORITHMS[settings.trainer].unrolls or settings.updates is not None:
        return 0
    if settings.keep_experience != "auto":
        return settings.keep_experience
    size = 0
    for name, (shape, dtype) in columns_from_spaces(*algo.single_spaces).items():
        numbers = torch.empty(0, dtype=dtype).numpy()
        size += width(shape, numbers.dtype) * (1 + is_observation(name))
    return max(1, min(MOST_ROWS, MOST_BYTES // size))
