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
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from interreplay.errors import describe_error
from interreplay.experiments.flags.values import drop_settings
from interreplay.experiments.process.progress import StudyReporter
from interreplay.experiments.process.signals import HANDLED, Interrupts
from interreplay.experiments.studies.study import Execution, Job, TrialFolder
from interreplay.experiments.training.train_loop import Requests, Training
from interreplay.experiments.tune.study_run import StudyRun
from interreplay.rllib import ray_session
from interreplay.rllib.algorithms.update_group import UpdateGroup, check_group

Event = tuple[str, str, dict[str, Any]]


class UpdateBarrier:
    """Barrier at which all runs wait before they train, and which groups them by the form of their updates.

    Attributes:
        building: Held while a run builds its algorithm, which draws from generators of the whole process.
    """

    def __init__(self, count: int, note: Callable[[str], object]):
        self.building = threading.Lock()
        self._note = note
        self._learners: list[Any] = []
        self._groups: dict[Any, UpdateGroup] = {}
        self._requests: dict[Any, Requests] = {}
        self._barrier = threading.Barrier(count, self._begin)

    def join(self, learner: Any) -> Requests:
        """Wait until all runs are ready or have ended; then updates are shared. Return the requests of the group."""
        self._learners.append(learner)
        self._barrier.wait()
        return self._requests[learner]

    def leave(self, learner: Any | None) -> None:
        """Remove a run. Its learner is None if the run ended before training; it waits until the others are ready."""
        if learner is None:
            self._barrier.wait()
        elif learner in self._groups:
            self._groups[learner].leave(learner)

    def _begin(self) -> None:
        """Group the learners of all runs that are ready."""
        left = list(self._learners)
        while left:
            first, *others = left
            members = [first]
            left = []
            reason = ""
            for learner in others:
                try:
                    check_group([first, learner])
                    members.append(learner)
                except ValueError as error:
                    left.append(learner)
                    reason = f" ({error})"
            self._requests |= dict.fromkeys(members, Requests())
            if len(members) == 1:
                self._note(f"a run learns alone{reason}")
                continue
            group = UpdateGroup(members)
            for learner in members:
                self._groups[learner] = group
                learner.join(group)
            self._note(f"{len(members)} runs learn as one")


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
        left = unfinished(jobs)
        for attempt in range(execution.max_failures + 1):
            if not left:
                break
            received: queue.SimpleQueue[Event | str] = queue.SimpleQueue()
            meeting = UpdateBarrier(len(left), received.put)
            runs[:] = [RunInThread(folder, settings, meeting) for folder, settings in left]
            if interrupts.received:  # earlier signals did not reach these runs
                break
            last = attempt == execution.max_failures
            threads = []
            for run in runs:
                threads.append(threading.Thread(target=execute, args=(run, received, last), daemon=True))
            for event in run_threads(threads, received):
                if event is None:
                    continue
                try:
                    events.send(event)
                except OSError:  # the parent process was killed
                    request("stop")
            left = [job for job, run in zip(left, runs, strict=True) if run.failed]
    sys.exit(interrupts.exit_code)


def unfinished(jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs whose runs have not finished and were not stopped early."""
    return [(folder, settings) for folder, settings in jobs if not TrialFolder(folder).is_over]


def execute(run: RunInThread, events: queue.SimpleQueue[Event | str], last: bool) -> None:
    """Execute a run and put its events, see `StudyReporter.on_event`."""
    name = run.folder.path.name
    event = "end"
    figures: dict[str, Any] = {}
    with contextlib.ExitStack() as exits:
        exits.callback(run.leave)  # after its events: a run that ends early waits for the others
        events.put(("start", name, {}))
        try:
            for figures in run.results():
                events.put(("result", name, figures))
            end = run.end
        except BaseException as error:
            run.failed = True
            event = "fail" if last else "retry"
            end = {"reason": describe_error(error)}
        events.put((event, name, figures | {"done": True} | end))


class Worker(threading.Thread):
    """Thread that trains some of the runs in a process, which is started again if it ends early.

    The events of the runs, and lines about them, are put into the queue `received`.
    """

    def __init__(self, jobs: Sequence[Job], execution: Execution, received: queue.SimpleQueue[Event | str]):
        super().__init__(daemon=True)
        self.jobs = list(jobs)
        self._execution = execution
        self._received = received
        self._pid = 0
        self._signals: list[int] = []  # that the current process must receive
        self._stopped = False

    def run(self) -> None:
        """Train all runs, or until a signal."""
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)  # new processes inherit it, and unblock them when they can
        context = multiprocessing.get_context("spawn")
        for left in range(self._execution.max_failures, -1, -1):
            events, sender = context.Pipe(duplex=False)
            process = context.Process(target=work, args=(self.jobs, self._execution, sender))
            process.start()
            self._pid = process.pid or 0
            for number in self._signals:  # received during the start
                os.kill(self._pid, number)
            sender.close()  # only the process keeps it open, so that `events` ends with the process
            self.receive(events)
            self._pid = 0
            process.join()
            code = process.exitcode or 0
            self._signals.clear()  # a request to stop has set `_stopped` before
            if code == 0 or self._stopped:
                return
            reason = f"its process ended with {signal.Signals(-code).name if code < 0 else code}"
            self.jobs = unfinished(self.jobs)
            for folder, _ in self.jobs:
                self._received.put(("retry" if left else "fail", folder.name, {"reason": reason}))
            if not self.jobs:
                return

    def receive(self, events: Connection) -> None:
        """Pass on the events and notes of a process until it ends; runs that end are left out of further starts."""
        with contextlib.suppress(EOFError, ConnectionResetError):
            while True:
                received = events.recv()
                if not isinstance(received, str) and received[0] in ("end", "fail"):
                    self.jobs = [job for job in self.jobs if job[0].name != received[1]]
                self._received.put(received)

    def signal(self, number: int) -> None:
        """Send a signal to the process, also to one that is being started."""
        self._stopped |= number != signal.SIGUSR1
        self._signals.append(number)
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)


def run_together(jobs: Sequence[Job], execution: Execution, reporter: StudyReporter) -> int:
    """Run all jobs, or until a signal, and return its exit code; failed runs are retried from their last checkpoints.

    SIGUSR1 makes all runs save and continue. SIGTERM and SIGINT make them save and stop.
    """
    resource_tracker.ensure_running()  # its start would unblock the signals of the worker that starts it
    received: queue.SimpleQueue[Event | str] = queue.SimpleQueue()
    workers = []
    for share in shares(jobs, execution.together):
        workers.append(Worker(share, execution, received))

    def send(number: int) -> None:
        for worker in workers:
            worker.signal(number)

    try:
        with Interrupts(lambda: send(signal.SIGTERM), lambda: send(signal.SIGUSR1)) as interrupts:
            for each in run_threads(workers, received):
                if isinstance(each, str):
                    reporter.note(each)
                elif each is not None:
                    reporter.on_event(*each)
                reporter.beat()
    finally:
        send(signal.SIGKILL)  # processes that are left after another Ctrl-C
    return interrupts.exit_code


def run_threads(
    threads: Sequence[threading.Thread], received: queue.SimpleQueue[Event | str]
) -> Iterator[Event | str | None]:
    """Run threads to their ends, and yield what they put into a queue, None if that takes more than half a second."""
    for thread in threads:
        thread.start()
    while any(map(threading.Thread.is_alive, threads)) or not received.empty():
        try:
            yield received.get(timeout=0.5)
        except queue.Empty:
            yield None


def shares(jobs: Sequence[Job], count: int) -> list[list[Job]]:
    """Distribute jobs evenly over processes; jobs that differ only in method and seed stay together."""
    alike: dict[str, list[Job]] = {}
    for folder, settings in jobs:
        learned = drop_settings(settings, ("buffer", "buffer_args", "seed"))
        alike.setdefault(repr(sorted(learned.items())), []).append((folder, settings))
    ordered = list(itertools.chain(*alike.values()))
    found = []
    for number in range(count):
        found.append(ordered[len(jobs) * number // count : len(jobs) * (number + 1) // count])
    return list(filter(None, found))
