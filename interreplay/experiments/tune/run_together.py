"""Run all runs of a study at once in a few processes, with one thread per run; runs with equal updates learn as one."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from interreplay.experiments.flags.values import drop_settings
from interreplay.experiments.process.signals import HANDLED, Interrupts
from interreplay.experiments.studies.study import Execution, Job, OnEvent
from interreplay.experiments.studies.study_folder import FAILED, TrialFolder
from interreplay.experiments.training.train_loop import Requests, Training
from interreplay.experiments.tune.study_run import NOT_STARTED, PermanentFailure, StudyRun, describe_error
from interreplay.rllib import ray_session
from interreplay.rllib.algorithms.update_group import UpdateGroup, check_group
from interreplay.runs.state_files.disk import FolderInUse

Event = tuple[str, str, dict[str, Any]]


class UpdateBarrier:
    """Barrier at which all runs wait before they train, and which groups them by the form of their updates.

    Attributes:
        building: Held while a run builds its algorithm, which draws from generators of the whole process.
    """

    def __init__(self, count: int, note: Callable[[str], object]):
        self.building = threading.Lock()
        self._expected = count
        self._note = note
        self._learners: list[Any] = []
        self._groups: dict[Any, UpdateGroup] = {}
        self._requests: dict[Any, Requests] = {}
        self._begun = False
        self._changed = threading.Condition()

    def join(self, learner: Any) -> Requests:
        """Wait until all runs are ready or have ended; then updates are shared. Return the requests of the group."""
        with self._changed:
            self._learners.append(learner)
            self._begin_if_complete()
            while not self._begun:
                self._changed.wait()
            return self._requests[learner]

    def leave(self, learner: Any | None) -> None:
        """Remove a run. Its learner is None if the run ended before training."""
        with self._changed:
            if not self._begun:
                self._expected -= 1
                if learner in self._learners:
                    self._learners.remove(learner)
                self._begin_if_complete()
        if learner in self._groups:
            self._groups[learner].leave(learner)

    def _begin_if_complete(self) -> None:
        if self._begun or len(self._learners) < self._expected:
            return
        left = list(self._learners)
        while left:
            members, left, reason = find_alike(left)
            self._requests |= dict.fromkeys(members, Requests())
            if len(members) > 1:
                group = UpdateGroup(members)
                for learner in members:
                    self._groups[learner] = group
                    learner.join(group)
                self._note(f"{len(members)} runs learn as one")
            else:
                self._note(f"a run learns alone ({reason})" if reason else "a run learns alone")
        self._begun = True
        self._changed.notify_all()


def find_alike(learners: Sequence[Any]) -> tuple[list[Any], list[Any], str]:
    """Return the learners whose updates can be combined with the first one's, the others, and why the last cannot."""
    members = [learners[0]]
    others = []
    reason = ""
    for learner in learners[1:]:
        try:
            check_group([learners[0], learner])
            members.append(learner)
        except ValueError as error:
            others.append(learner)
            reason = str(error)
    return members, others, reason


class RunInThread(StudyRun):
    """A run of a study whose updates are shared with other runs of this process.

    It is marked as `failed` if another attempt may succeed.
    """

    def __init__(self, folder: Path, settings: dict[str, Any], meeting: UpdateBarrier):
        super().__init__(folder, settings, hang_timeout=0.0)  # a timer of the process cannot watch each thread
        self.failed = False
        self._meeting = meeting
        self._learner: Any = None

    def _prepare(self) -> Training:
        with self._meeting.building:
            training = super()._prepare()
        self._learner = training.algo.learner
        training.requests = self._meeting.join(self._learner)
        if self._requested:  # while the run waited
            self.ask(self._requested)
        return training

    def leave(self) -> None:
        """Let the other runs learn without this one."""
        self._meeting.leave(self._learner)


def work(jobs: Sequence[Job], execution: Execution, events: Connection) -> None:
    """Train all jobs in this process, or until a signal, and exit with its code."""
    os.setpgid(0, 0)  # Ctrl-C interrupts the parent process, which then stops this one
    ray_session.prepare_host(execution.cpus_per_trial, 0, jobs[0][1]["device"])
    runs: list[RunInThread] = []

    def request(what: str) -> None:
        for run in runs:
            run.ask(what)

    with Interrupts(lambda: request("stop"), lambda: request("save"), silent=True) as interrupts:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)  # blocked by the parent process
        left = [(folder, settings) for folder, settings in jobs if not TrialFolder(folder).is_over]
        for attempt in range(execution.max_failures + 1):
            if not left or interrupts.received:
                break
            received: queue.SimpleQueue[Event | str] = queue.SimpleQueue()
            meeting = UpdateBarrier(len(left), received.put)
            runs[:] = [RunInThread(folder, settings, meeting) for folder, settings in left]
            last = attempt == execution.max_failures
            threads = [threading.Thread(target=execute, args=(run, received, last), daemon=True) for run in runs]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads) or not received.empty():
                try:
                    events.send(received.get(timeout=0.5))
                except queue.Empty:
                    continue
                except OSError:  # the parent process was killed
                    request("stop")
            left = [job for job, run in zip(left, runs, strict=True) if run.failed]
    sys.exit(interrupts.exit_code)


def execute(run: RunInThread, events: queue.SimpleQueue[Event | str], last: bool) -> None:
    """Execute a run and put its events, see `OnEvent`."""
    name = run.folder.path.name
    events.put(("start", name, {}))
    figures: dict[str, Any] = {}
    try:
        with contextlib.ExitStack() as exits:
            exits.callback(run.leave)
            exits.enter_context(run)
            for figures in run.results():
                events.put(("result", name, figures))
        status = run.folder.status()
        end = {"state": run.over, "env_steps": status["env_steps"], "reason": status.get("reason", "")}
    except FolderInUse as error:
        end = {"state": NOT_STARTED, "reason": str(error)}
    except PermanentFailure as error:
        end = {"state": FAILED, "env_steps": run.folder.status()["env_steps"], "reason": str(error)}
    except BaseException as error:
        run.failed = True
        events.put(("fail" if last else "retry", name, {"reason": describe_error(error)}))
        return
    events.put(("end", name, figures | {"done": True} | end))


class Worker:
    """A process that trains some of the runs; `events` receives events and notes, and is None while no process runs."""

    def __init__(self, jobs: Sequence[Job], execution: Execution):
        self._jobs = list(jobs)
        self._execution = execution
        self._process: Any = None
        self.events: Any = None
        self.starts = 0

    def start(self) -> None:
        """Start the process."""
        context = multiprocessing.get_context("spawn")
        self.events, events = context.Pipe(duplex=False)
        self._process = context.Process(target=work, args=(self._jobs, self._execution, events))
        self._process.start()
        events.close()  # only the process keeps it open, so that `self.events` ends with the process
        self.starts += 1

    def signal(self, number: int) -> None:
        """Send a signal to the process, if it runs."""
        if self._process is not None and self._process.is_alive():
            os.kill(self._process.pid, number)

    def join(self) -> str:
        """Wait for the end of the process; return the reason of a failure, or ""."""
        self.events = None
        self._process.join()
        code = self._process.exitcode
        if code == 0:
            return ""
        return f"its process ended with {signal.Signals(-code).name if code < 0 else code}"

    def remove(self, name: str) -> None:
        """Exclude a run that has ended from further starts of the process."""
        self._jobs = [(folder, settings) for folder, settings in self._jobs if folder.name != name]

    def list_unfinished(self) -> list[str]:
        """Return the names of the runs that have not ended."""
        return [folder.name for folder, _ in self._jobs if not TrialFolder(folder).is_over]


def run_together(
    jobs: Sequence[Job],
    execution: Execution,
    on_event: OnEvent,
    beat: Callable[[], Any],
    note: Callable[[str], object],
) -> int:
    """Run all jobs, or until a signal, and return its exit code; failed runs are retried from their last checkpoints.

    SIGUSR1 makes all runs save and continue. SIGTERM and SIGINT make them save and stop. `on_event` and `beat` are as
    for `run_study.run_trials`; `note` is called with lines about the runs.
    """
    workers = [Worker(share, execution) for share in shares(jobs, execution.together)]

    def send(number: int) -> None:
        for worker in workers:
            worker.signal(number)

    try:
        with Interrupts(lambda: send(signal.SIGTERM), lambda: send(signal.SIGUSR1)) as interrupts:
            start(workers)
            next_beat = time.monotonic()
            while running := [worker for worker in workers if worker.events is not None]:
                ready = wait([worker.events for worker in running], timeout=0.5)
                for worker in running:
                    if worker.events not in ready or receive(worker, on_event, note):
                        continue
                    reason = worker.join()
                    if reason and not interrupts.received:
                        repair(worker, reason, execution.max_failures, on_event)
                if time.monotonic() >= next_beat:
                    beat()
                    next_beat = time.monotonic() + 0.5
    finally:
        send(signal.SIGKILL)  # processes that are left after another Ctrl-C
    return interrupts.exit_code


def start(workers: Sequence[Worker]) -> None:
    """Start processes. Signals that arrive meanwhile wait until this process and the new ones can handle them."""
    resource_tracker.ensure_running()  # its start unblocks signals, so it must precede the next line
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    try:
        for worker in workers:
            worker.start()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)


def shares(jobs: Sequence[Job], count: int) -> list[list[Job]]:
    """Distribute jobs evenly over processes; jobs that differ only in method and seed stay together."""
    alike: dict[str, list[Job]] = {}
    for folder, settings in jobs:
        learned = drop_settings(settings, ("buffer", "buffer_args", "seed"))
        alike.setdefault(repr(sorted(learned.items())), []).append((folder, settings))
    ordered = list(itertools.chain(*alike.values()))
    found = []
    for number in range(count):
        start = len(jobs) * number // count
        end = len(jobs) * (number + 1) // count
        if end > start:
            found.append(ordered[start:end])
    return found


def receive(worker: Worker, on_event: OnEvent, note: Callable[[str], object]) -> bool:
    """Report the next event or note of a process; return False if the process has ended."""
    try:
        received = worker.events.recv()
    except (EOFError, ConnectionResetError):
        return False
    if isinstance(received, str):
        note(received)
        return True
    event, name, figures = received
    if event in ("end", "fail"):
        worker.remove(name)
    on_event(event, name, figures)
    return True


def repair(worker: Worker, reason: str, max_failures: int, on_event: OnEvent) -> None:
    """Restart a process that ended with unfinished runs, or report that they failed."""
    names = worker.list_unfinished()
    again = worker.starts <= max_failures
    for name in names:
        on_event("retry" if again else "fail", name, {"reason": reason})
    if names and again:
        start([worker])
