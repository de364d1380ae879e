"""How often a model is fitted, how many rollouts begin, and how long they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from interreplay.argument_checks import check_number

Schedule = tuple[float, float, float, float]
"""Length at first, length at last, and the env steps between which it grows."""
PUBLISHED: dict[str, Schedule] = {
    "Hopper": (1, 15, 20_000, 150_000),
    "Ant": (1, 25, 20_000, 100_000),
    "Humanoid": (1, 25, 20_000, 300_000),
}
"""Of MBPO's experiments, by names without versions; elsewhere rollouts have one step."""


@dataclass(frozen=True)
class Limits:
    """How often and how much.

    Attributes:
        fit_every: Env steps between fits.
        fit_rows: Most rows of a fit; None for all.
        per_step: Rollouts that begin, per env step.
        schedule: Of their length; None for that of the environment.
        keep_fits: Fits for which rows are kept.
    """

    fit_every: int
    fit_rows: int | None
    per_step: float
    schedule: Schedule | None
    keep_fits: int

    def __post_init__(self) -> None:
        for name in ("fit_every", "fit_rows", "keep_fits"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 2 if name == "fit_rows" else 1, whole=True)
        check_number("rollouts", self.per_step, 0, above_low=True)
        if self.rollouts < 1:
            raise ValueError(f"rollouts is {self.per_step!r}; expected a number per env step, at least one per fit")

    @property
    def rollouts(self) -> int:
        """Rollouts after each fit."""
        return int(self.per_step * self.fit_every)

    def rows_of(self, length: int) -> int:
        """Return how many rows rollouts of a length make in the fits that they are kept for."""
        return self.keep_fits * self.rollouts * length


def as_schedule(given: Any) -> Schedule | None:
    """Return a schedule of lengths: of one number a constant one.

    Raises:
        ValueError: It is none.
    """
    if given is None:
        return None
    numbers = [given, given, 0, 0] if isinstance(given, int | float) else [*given] if not isinstance(given, str) else []
    whole = len(numbers) == 4 and all(isinstance(number, int | float) and number == number for number in numbers)
    if not whole or min(numbers[:2]) < 1 or not 0 <= numbers[2] <= numbers[3] < float("inf"):
        raise ValueError(
            f"rollout_length is {given!r}; expected a number of steps, or (start, end, from, to) with lengths of at "
            "least 1 and env steps in order"
        )
    return numbers[0], numbers[1], numbers[2], numbers[3]


def rollout_length(schedule: Schedule, env_steps: int) -> int:
    """Return how long rollouts are after so many env steps.

    Args:
        schedule: (start, end, from, to): `start` steps until env step `from`, then growing linearly, `end` from env
            step `to` on; whole steps, rounded down.
        env_steps: Of the run.
    """
    start, end, begin, until = schedule
    done = min(max((env_steps - begin) / (until - begin), 0.0), 1.0) if until > begin else float(env_steps >= until)
    return int(start + (end - start) * done + 1e-9)
