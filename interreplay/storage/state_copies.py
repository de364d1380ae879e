"""Copies of states, which are nested dicts and lists of arrays and plain values, and states of random generators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
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


def attributes(owner: object, names: Iterable[str]) -> dict[str, Any]:
    """Return attributes by name, for example as part of a state."""
    return {name: getattr(owner, name) for name in names}


def restore_generator(generator: torch.Generator, state: Any) -> None:
    """Restore the state of a generator, unless it is of another kind of device, whose states have other sizes."""
    saved = torch.as_tensor(np.array(state))
    if saved.shape == generator.get_state().shape:
        generator.set_state(saved)
