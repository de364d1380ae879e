"""Conversion of batches of observations to columns and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from interreplay.environments.spaces import named_parts
from interreplay.transitions import as_tensor

CPU = torch.device("cpu")


def as_column(observation: Any) -> Any:
    """Return observations as arrays, float64 as float32, and the parts of Dicts and Tuples as named columns."""
    if isinstance(observation, dict | tuple):
        return {name: as_column(part) for name, part in named_parts(observation).items()}
    array = np.asarray(observation)
    if array.dtype.char == "d":  # float64 in any byte order
        return array.astype(np.float32)
    return array


def pick(observation: Any, rows: Any) -> Any:
    """Return some rows of a batch of observations."""
    if isinstance(observation, dict):
        return {name: part[rows] for name, part in observation.items()}
    return observation[rows]


def as_tensors(observation: Any, device: torch.device) -> Any:
    """Return a batch of observations as tensors on a device."""
    if isinstance(observation, dict):
        return {name: as_tensor(part).to(device) for name, part in observation.items()}
    return as_tensor(observation).to(device)
