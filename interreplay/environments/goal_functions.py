"""Functions of goals: rewards and terminations of goal-conditioned environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

ACHIEVED = "achieved_goal"
DESIRED = "desired_goal"
"""Parts of the observations of goal-conditioned environments."""
GoalFn = Callable[[np.ndarray, np.ndarray, dict[str, Any]], Any]
"""``(achieved, desired, info)`` of one row or of many, as in gymnasium-robotics' `GoalEnv`."""


def each(fn: GoalFn, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
    """Return values ``(n,)`` of `fn` for goals ``(n, ...)``, in one call if possible, else row by row.

    A function that accepts single rows only returns another shape or raises an error for many rows.
    """
    count = len(achieved)
    many_achieved = achieved
    many_desired = desired
    if count in achieved.shape[1:]:  # a function of single rows could return n values by coincidence, but not n + 1
        many_achieved = np.concatenate([achieved, achieved[-1:]])
        many_desired = np.concatenate([desired, desired[-1:]])
    try:
        values = np.asarray(fn(many_achieved, many_desired, {}))
    except Exception:  # a function of single rows may raise anything, such as an assertion about a shape
        values = np.empty(0)
    if values.shape == many_achieved.shape[:1]:
        return values[:count]
    return np.array([fn(one, goal, {}) for one, goal in zip(achieved, desired, strict=True)])
