"""Run all runs of a study at once in a few processes, each with one thread per run."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from typing import Any

from interreplay.experiments.flags.values import without
from interreplay.experiments.process.signals import HANDLED, Interrupts
from interreplay.experiments.studies.study import Execution, Job, OnEvent
from interreplay.experiments.studies.trial_folder import TrialFolder
from interreplay.experiments.tune.run_threads import work


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
        self._jobs = [job for job in self._jobs if job[0].name != name]

    def unfinished(self) -> list[str]:
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
                    if worker.events not in ready:
                        continue
                    try:
                        receive(worker, on_event, note)
                    except EOFError:
                        reason = worker.join()
                        if reason and not interrupts.received:
                            repair(worker, reason, execution.max_failures, on_event)
                if time.monotonic() >= next_beat:
                    beat()
                    next_beat = time.monotonic() + 0.5
    finally:
        send(signal.SIGKILL)  # processes that are left after another Ctrl-C
    return interrupts.exit_code if interrupts.received else 0


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
    for job in jobs:
        learned = without(job[1], ("buffer", "buffer_args", "seed"))
        alike.setdefault(repr(sorted(learned.items())), []).append(job)
    ordered = list(itertools.chain(*alike.values()))
    ends = [len(jobs) * number // count for number in range(count + 1)]
    return [ordered[start:end] for start, end in zip(ends[:-1], ends[1:], strict=True) if end > start]


def receive(worker: Worker, on_event: OnEvent, note: Callable[[str], object]) -> None:
    """Report the next event or note of a process; raise EOFError if it has ended."""
    try:
        received = worker.events.recv()
    except ConnectionResetError as error:
        raise EOFError from error
    if isinstance(received, str):
        note(received)
        return
    event, name, figures = received
    if event in ("end", "fail"):
        worker.remove(name)
    on_event(event, name, figures)


def repair(worker: Worker, reason: str, max_failures: int, on_event: OnEvent) -> None:
    """Restart a process that ended with unfinished runs, or report that they failed."""
    names = worker.unfinished()
    again = worker.starts <= max_failures
    for name in names:
        on_event("retry" if again else "fail", name, {"reason": reason})
    if names and again:
        start([worker])
