"""Checks of numeric arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any


def check_number(
    name: str,
    value: Any,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    whole: bool = False,
    above_low: bool = False,
    below_high: bool = False,
) -> None:
    """Raise ValueError unless an argument is a finite number within bounds.

    Args:
        name: Name of the argument.
        value: Its value.
        low: Smallest accepted number.
        high: Largest accepted number.
        whole: Whether only integers are accepted.
        above_low: Whether `low` itself is rejected.
        below_high: Whether `high` itself is rejected.

    Raises:
        ValueError: With the name, the value and what is accepted.
    """
    is_number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    accepted = (
        is_number
        and (isinstance(value, Integral) or math.isfinite(value))
        and (value > low or (value == low and not above_low))
        and (value < high or (value == high and not below_high))
    )
    if not accepted:
        kind = "an integer" if whole else "a number"
        bounds = _bounds(low, high, above_low, below_high)
        raise ValueError(f"{name} is {value!r}; expected {kind}{bounds}")


def as_range(name: str, value: Sequence[Any]) -> tuple[int, int]:
    """Return two positive integers in ascending order.

    Raises:
        ValueError: With the name, the value and what is accepted.
    """
    whole = len(value) == 2 and all(isinstance(end, Integral) and not isinstance(end, bool) for end in value)
    if not whole or not 1 <= value[0] <= value[1]:
        raise ValueError(f"{name} is {value!r}; expected an integer of 1 or more, or two, the smaller one first")
    return int(value[0]), int(value[1])


def _bounds(low: float, high: float, above_low: bool, below_high: bool) -> str:
    """Return the accepted range in words, such as " from 0 to 1"."""
    if high == math.inf:
        if low == -math.inf:
            return ""
        return f" above {low}" if above_low else f" of {low} or more"
    if not above_low and not below_high:
        return f" from {low} to {high}"
    start = f"above {low}" if above_low else f"from {low}"
    end = f"below {high}" if below_high else f"at most {high}"
    return f" {start} and {end}"
