"""End a process that no longer makes progress, and record the stacks of its threads."""

from __future__ import annotations

import faulthandler
import os
import threading
import time
from collections.abc import Callable, Hashable
from pathlib import Path

HUNG = "hung.txt"
START_PATIENCE = 900.0
"""Minimum limit in seconds until the first progress: some environments compile at the start."""
GRACE = 10.0
"""Seconds after the limit at which faulthandler ends a process whose watching thread cannot run."""


class HangWatch:
    """A context that ends the process with exit code 1 when it makes no progress for too long.

    A thread observes the progress and sets faulthandler's timer back. The timer also fires while native code holds
    Python's global lock.

    Args:
        folder: Folder of ``hung.txt``, which receives the stacks of all threads.
        timeout: Seconds without progress; 0 disables the watch.
        progress: Returns a value that changes with any progress, such as counts of steps, and None before the first
            progress. Called from the thread.
        report: Called with one line just before the end.
    """

    def __init__(
        self, folder: Path, timeout: float, progress: Callable[[], Hashable], report: Callable[[str], object] = str
    ):
        self._path = folder / HUNG
        self._timeout = timeout
        self._progress = progress
        self._report = report
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> HangWatch:
        if self._timeout:
            self._file = self._path.open("w")
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        if self._timeout:
            self._thread.join()
            faulthandler.cancel_dump_traceback_later()
            self._file.close()
            self._path.unlink(missing_ok=True)

    def _watch(self) -> None:
        last = self._progress()
        limit = self._restart_timer(last)
        since = time.monotonic()
        while not self._over.wait(min(5.0, self._timeout / 4)):
            current = self._progress()
            if current != last:
                last = current
                limit = self._restart_timer(current)
                since = time.monotonic()
            elif time.monotonic() - since > limit:
                self._end(limit)

    def _restart_timer(self, progress: Hashable) -> float:
        """Set faulthandler's timer back, and return the limit in seconds."""
        limit = self._timeout
        if progress is None:
            limit = max(limit, START_PATIENCE)
        faulthandler.dump_traceback_later(limit + GRACE, exit=True, file=self._file)
        return limit

    def _end(self, limit: float) -> None:
        try:
            faulthandler.dump_traceback(self._file, all_threads=True)
            self._report(f"hung: no progress for {limit:g} s; the stacks are in {HUNG}")
        finally:  # also if the disk is full
            os._exit(1)
