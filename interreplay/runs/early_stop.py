"""Early stopping of a run: at a return, or after evaluations without improvement. Durations of time limits."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_SECONDS = (86_400, 3_600, 60, 1)


def seconds(text: str) -> int:
    """Return the seconds of a duration such as ``90s``, ``30m``, ``2h``, ``1d`` or ``1h30m``."""
    match = _DURATION.fullmatch(text)
    counts = match.groups("0") if match else ()
    total = sum(int(count) * length for count, length in zip(counts, _SECONDS, strict=False))
    if not 0 < total < 10**9:
        raise ValueError(f"must be a duration such as 90s, 30m, 2h, 1d or 1h30m, got {text!r}")
    return total


class EarlyStop:
    """Decides after each evaluation whether a run has reached its goal or stopped improving, and for which `reason`.

    Returns are of evaluations, or of training in runs without evaluations (`kind`). `earlier` returns precede a resume.
    """

    def __init__(self, target: float | None, patience: int | None, kind: str, earlier: Iterable[float] = ()):
        self._target = target
        self._patience = patience
        self._kind = kind
        self._best = -math.inf
        self._since_best = 0
        self.reason = ""
        for value in earlier:
            self.add(value)

    def add(self, value: float) -> None:
        """Add the mean return of the newest evaluation."""
        self._since_best += 1
        if value > self._best:
            self._best = value
            self._since_best = 0
        self.reason = ""
        if self._target is not None and self._best >= self._target:
            self.reason = f"{self._kind} return {self._best:,.1f} reached --stop_at_return {self._target:g}"
        elif self._patience is not None and self._since_best >= self._patience:
            kind = "evaluations" if self._kind == "evaluation" else "iterations"
            limit = f"--stop_without_improvement {self._patience}"
            self.reason = f"{self._since_best} {kind} without a return above {self._best:,.1f} ({limit})"
