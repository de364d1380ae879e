"""Ctrl-C and SIGTERM as a request to stop, so that the work in hand is finished and saved."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any


class Interrupts:
    """While it is entered, the first SIGINT or SIGTERM calls ``stop``; a SIGINT after that ends at once.

    Args:
        stop: Called from the signal handler; must only note the wish.

    Attributes:
        received: The first signal's number, or 0.
    """

    def __init__(self, stop: Callable[[], Any]):
        self._stop = stop
        self._before: dict[int, Any] = {}
        self.received = 0

    def __enter__(self) -> Interrupts:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not self.received:
            self.received = number
            # A handler may run in the middle of a write to a buffered stream; the descriptor has no such state.
            os.write(2, b"\nstopping after the update in hand, then saving; Ctrl-C again stops at once\n")
        self._stop()
