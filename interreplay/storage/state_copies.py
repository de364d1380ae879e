"""Copies of states: nested dicts and lists of arrays and plain values."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor


def copy_arrays(state: Any) -> Any:
    """Return a deep copy of a state."""
    if isinstance(state, dict):
        return {key: copy_arrays(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return list(map(copy_arrays, state))
    if isinstance(state, Tensor):
        return state.clone()
    if isinstance(state, np.ndarray):
        return state.copy()
    return state
