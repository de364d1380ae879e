"""Signal handlers: Ctrl-C and SIGTERM stop a run, SIGUSR1 saves it, both after the current update or iteration."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

RESUMABLE = 75
"""Exit code after SIGTERM (EX_TEMPFAIL of sysexits): everything is saved, and ``--resume`` continues."""
HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
"""Signals that `Interrupts` handles."""


class Interrupts:
    """A context in which the first SIGINT or SIGTERM calls ``stop``; a further SIGINT ends the program at once.

    Args:
        stop: Called from the signal handler; must only record the request.
        save: Called from the handler at every SIGUSR1, with which schedulers announce their time limit.
        silent: Whether to print nothing.
        unit: What is finished before the stop, for the message.

    Attributes:
        received: The first signal's number, or 0.
    """

    def __init__(
        self,
        stop: Callable[[], Any],
        save: Callable[[], Any] = lambda: None,
        silent: bool = False,
        unit: str = "update",
    ):
        self._stop = stop
        self._save = save
        self._silent = silent
        self._unit = unit
        self._before: dict[int, Any] = {}
        self.received = 0

    def __enter__(self) -> Interrupts:
        for number in HANDLED:
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def exit_code(self) -> int:
        """The exit code of a program that a signal stopped: 75 after SIGTERM, else 128 + its number; 0 without one."""
        if self.received == signal.SIGTERM:
            return RESUMABLE
        return 128 + self.received if self.received else 0

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGUSR1:
            self._report("\nsaving, then continuing\n")
            self._save()
            return
        if self.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not self.received:
            self.received = number
            self._report(f"\nstopping after the current {self._unit}, then saving; Ctrl-C again stops at once\n")
        self._stop()

    def _report(self, line: str) -> None:
        """Write to the descriptor: a handler may interrupt a write to the buffered stream."""
        if not self._silent:
            with contextlib.suppress(OSError):  # a closed pipe
                os.write(2, line.encode())


@contextlib.contextmanager
def end_at_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C end the program with one line and exit code 130, as during imports, which take seconds.

    A `KeyboardInterrupt` would print a traceback, or be caught by the module that is being imported.
    Nothing changes outside of the main thread, or if SIGINT is ignored or handled.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _end_at_once)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end_at_once(number: int, frame: FrameType | None) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"{os.path.basename(sys.argv[0])}: stopped\n".encode())
    os._exit(128 + number)


def end_without_saving() -> None:
    """Until `Interrupts` is entered, ignore SIGUSR1 and let SIGTERM end the program with `RESUMABLE`."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(RESUMABLE))
