"""Requests to save or to stop, which runs with joint updates handle after equally many updates."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable


class Requests:
    """Requests to save or to stop, of one run or of several runs that learn as one.

    A run handles a request once it has drawn as many batches as the run that is ahead. Otherwise, runs could stop one
    update apart, and could not learn as one when they are resumed.
    """

    def __init__(self) -> None:
        self.timed_out = False
        self._lock = threading.Lock()
        self._draws: Counter[Hashable] = Counter()
        self._saves: Counter[Hashable] = Counter()
        self._save_requested = False
        self._stop_requested = False
        self._number_of_saves = 0
        self._save_at = 0
        self._stop_at: int | None = None

    def save(self) -> None:
        """Request a checkpoint of each run. Safe in signal handlers."""
        self._save_requested = True

    def stop(self) -> None:
        """Request the end of each run. Safe in signal handlers."""
        self._stop_requested = True

    def count_draw(self, run: Hashable) -> None:
        """Count a draw of batches that a run begins."""
        with self._lock:
            self._draws[run] += 1

    def due(self, run: Hashable, before_draw: bool = False) -> str:
        """Return what a run must do now: ``"stop"``, ``"save"``, or ``""`` to continue.

        With `before_draw`, the run draws batches if it continues, which counts the draw.
        """
        with self._lock:
            draws = self._draws[run]
            most_draws = max(self._draws.values(), default=0)
            if self._stop_requested and self._stop_at is None:
                self._stop_at = most_draws
            if self._save_requested:
                self._save_requested = False
                self._save_at = most_draws
                self._number_of_saves += 1
            if self._stop_at is not None and draws >= self._stop_at:
                return "stop"
            if self._saves[run] < self._number_of_saves and draws >= self._save_at:
                self._saves[run] = self._number_of_saves
                return "save"
            if before_draw:
                self._draws[run] += 1
            return ""
