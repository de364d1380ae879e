"""How often a model is fitted, and the number and length of its rollouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from interreplay.argument_checks import check_number

Schedule = tuple[float, float, float, float]
"""Initial length, final length, and the two env steps between which the length grows."""
PUBLISHED: dict[str, Schedule] = {
    "Hopper": (1, 15, 20_000, 150_000),
    "Ant": (1, 25, 20_000, 100_000),
    "Humanoid": (1, 25, 20_000, 300_000),
}
"""Rollout lengths of MBPO's experiments by environment, without version. Other environments use one step."""


@dataclass(frozen=True)
class Limits:
    """How often a model is fitted, and how many rows its rollouts generate.

    Attributes:
        fit_every: Env steps between fits.
        fit_rows: Maximum number of rows of a fit; None for all.
        per_step: Number of rollouts per env step.
        schedule: Rollout length; None for the environment's published schedule.
        keep_fits: Number of fits for which generated rows are kept.
    """

    fit_every: int
    fit_rows: int | None
    per_step: float
    schedule: Schedule | None
    keep_fits: int

    def __post_init__(self) -> None:
        check_number("fit_every", self.fit_every, 1, whole=True)
        if self.fit_rows is not None:
            check_number("fit_rows", self.fit_rows, 2, whole=True)
        check_number("keep_fits", self.keep_fits, 1, whole=True)
        check_number("rollouts", self.per_step, 0, above_low=True)
        if self.rollouts < 1:
            raise ValueError(f"rollouts is {self.per_step!r}; expected a number per env step, at least one per fit")

    @property
    def rollouts(self) -> int:
        """Number of rollouts after each fit."""
        return int(self.per_step * self.fit_every)

    def rows_of(self, length: int) -> int:
        """Return the number of kept rows of rollouts of `length` steps."""
        return self.keep_fits * self.rollouts * length


def as_schedule(given: Any) -> Schedule | None:
    """Return a schedule of rollout lengths, constant for a single number.

    Raises:
        ValueError: `given` is not a valid schedule.
    """
    if given is None:
        return None
    numbers: list[Any] = []
    if isinstance(given, int | float):
        numbers = [given, given, 0, 0]
    elif not isinstance(given, str):
        numbers = list(given)
    valid = len(numbers) == 4 and all(isinstance(number, int | float) and number == number for number in numbers)
    if not valid or min(numbers[:2]) < 1 or not 0 <= numbers[2] <= numbers[3] < float("inf"):
        raise ValueError(
            f"rollout_length is {given!r}; expected a number of steps, or (start, end, from, to) with lengths of at "
            "least 1 and env steps in order"
        )
    return numbers[0], numbers[1], numbers[2], numbers[3]


def rollout_length(schedule: Schedule, env_steps: int) -> int:
    """Return the rollout length after a number of env steps.

    Args:
        schedule: (start, end, from, to). The length is `start` up to env step `from`, grows linearly, and is `end`
            after env step `to`; fractions are rounded down.
        env_steps: Env steps of the run so far.
    """
    start, end, begin, until = schedule
    if until == begin:
        return int(end if env_steps >= until else start)
    progress = min(max((env_steps - begin) / (until - begin), 0.0), 1.0)
    return int(start + (end - start) * progress + 1e-9)
