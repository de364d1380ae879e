"""Ends a process in which nothing moves any more, and notes where it stood."""

from __future__ import annotations

import faulthandler
import os
import threading
import time
from collections.abc import Callable, Hashable
from pathlib import Path

HUNG = "hung.txt"
START_PATIENCE = 900.0
"""Seconds until the first sign of life, where the limit is less: some environments compile themselves first."""


class HangWatch:
    """While it is entered, a thread looks for signs of life; without any for too long the process ends with code 1.

    Args:
        folder: Where the stacks of all threads are written to, as ``hung.txt``.
        timeout: Seconds without a sign of life; 0 for no limit.
        pulse: Returns what changes as long as something moves, such as counts of steps, and None before the first of
            them; called from the thread.
        report: Called with a line just before the end.
    """

    def __init__(
        self, folder: Path, timeout: float, pulse: Callable[[], Hashable], report: Callable[[str], object] = str
    ):
        self._folder, self._timeout, self._pulse, self._report = folder, timeout, pulse, report
        self._over = threading.Event()

    def __enter__(self) -> HangWatch:
        if self._timeout:
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()

    def _watch(self) -> None:
        last, since = self._pulse(), time.monotonic()
        while not self._over.wait(min(5.0, self._timeout / 4)):
            now = self._pulse()
            limit = self._timeout if now is not None else max(self._timeout, START_PATIENCE)
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > limit:
                self._end(limit)

    def _end(self, limit: float) -> None:
        line = f"hung: no env step for {limit:g} s; {HUNG} says where"
        try:
            with (self._folder / HUNG).open("w") as file:
                faulthandler.dump_traceback(file, all_threads=True)
            self._report(line)
        finally:  # also where the disk is full
            os._exit(1)
