"""Functions of goals: rewards and terminations of goal-conditioned environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from interreplay.errors import PartError

ACHIEVED = "achieved_goal"
DESIRED = "desired_goal"
"""Parts of the observations of goal-conditioned environments."""
EXPECTED = "expected one finite number per row"
GoalFn = Callable[[np.ndarray, np.ndarray, dict[str, Any]], Any]
"""``(achieved, desired, info)`` of one row or of many, as in gymnasium-robotics' `GoalEnv`."""


def each(fn: GoalFn, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
    """Return values ``(n,)`` of `fn` for goals ``(n, ...)``, in one call if possible, else row by row.

    A function that accepts single rows only returns another shape or raises an error for many rows. It receives copies,
    which it may change.

    Raises:
        PartError: The function returned anything other than one finite number per row.
    """
    count = len(achieved)
    many_achieved = achieved.copy()
    many_desired = desired.copy()
    if count in achieved.shape[1:]:  # a function of single rows could return n values by coincidence, but not n + 1
        many_achieved = np.concatenate([achieved, achieved[-1:]])
        many_desired = np.concatenate([desired, desired[-1:]])
    try:
        values = np.asarray(fn(many_achieved, many_desired, {}))
    except Exception:  # a function of single rows may raise anything, such as an assertion about a shape
        values = np.empty(0)
    if values.shape == many_achieved.shape[:1]:
        return _check_finite(fn, values[:count])
    found = []
    for one, goal in zip(achieved, desired, strict=True):
        value = np.asarray(fn(one.copy(), goal.copy(), {}))
        if value.size != 1:
            raise PartError(f"{_get_name(fn)} returned {_shorten(value)} for one row; {EXPECTED}")
        found.append(value)
    return _check_finite(fn, np.array(found).reshape(count))


def _check_finite(fn: GoalFn, values: np.ndarray) -> np.ndarray:
    """Return values ``(n,)`` of a function of goals if all of them are finite numbers."""
    if values.dtype.kind not in "biuf":
        raise PartError(f"{_get_name(fn)} returned {_shorten(values[0])}; {EXPECTED}")
    finite = np.isfinite(values)
    if not finite.all():
        raise PartError(f"{_get_name(fn)} returned {values[~finite][0]}; {EXPECTED}")
    return values


def _get_name(fn: GoalFn) -> str:
    return getattr(fn, "__name__", "the function of goals")


def _shorten(value: Any) -> str:
    """Return the beginning of a value's text on one line."""
    return " ".join(str(value).split())[:60]
