"""Signals as requests: Ctrl-C and SIGTERM to stop, SIGUSR1 to save, once the work in hand is finished."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

RESUMABLE = 75
"""Exit code after SIGTERM: all is saved, and the same command with ``--resume`` goes on (EX_TEMPFAIL of sysexits)."""


class Interrupts:
    """While it is entered, the first SIGINT or SIGTERM calls ``stop``; a SIGINT after that ends at once.

    Args:
        stop: Called from the signal handler; must only note the request.
        save: Called likewise at every SIGUSR1, by which schedulers announce their time limit; the work goes on.

    Attributes:
        received: The first signal's number, or 0.
    """

    def __init__(self, stop: Callable[[], Any], save: Callable[[], Any] = lambda: None):
        self._stop, self._save = stop, save
        self._before: dict[int, Any] = {}
        self.received = 0

    def __enter__(self) -> Interrupts:
        handlers = {signal.SIGINT: self._handle, signal.SIGTERM: self._handle, signal.SIGUSR1: self._handle_save}
        for number, handler in handlers.items():
            self._before[number] = signal.signal(number, handler)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def exit_code(self) -> int:
        """The exit code of a program that a signal stopped: 75 after SIGTERM, 128 + n after signal n else."""
        return RESUMABLE if self.received == signal.SIGTERM else 128 + self.received

    def _handle_save(self, number: int, frame: FrameType | None) -> None:
        _report(b"\nsaving, then going on\n")
        self._save()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not self.received:
            self.received = number
            _report(b"\nstopping after the update in hand, then saving; Ctrl-C again stops at once\n")
        self._stop()


def _report(line: bytes) -> None:
    """Write to the descriptor: a handler may run in the middle of a write to the buffered stream."""
    with contextlib.suppress(OSError):  # nobody reads it any more
        os.write(2, line)


def before_anything_is_to_save() -> None:
    """Ignore SIGUSR1 and let SIGTERM end the program with `RESUMABLE`, until `Interrupts` is entered."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(RESUMABLE))
